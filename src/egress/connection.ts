import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { TargetUrl } from '../core/target-url.ts';
import { within } from './deadline.ts';
import { type Candidate, dial, secure } from './dial.ts';
import { EgressFault, faultFrom } from './fault.ts';
import { authorizationOf, openTunnel, type ProxyAddress, TunnelRefused } from './proxy.ts';

export type Dialled = { readonly address: string; readonly port: number; readonly via: 'direct' | 'http' | 'socks5' };

/** A proxy with its resolved addresses. */
type ProxyRoute = { readonly proxy: ProxyAddress; readonly mayForward: boolean; readonly addresses: readonly Candidate[] };

export type ConnectionParams = {
  readonly target: TargetUrl;
  readonly candidates: readonly Candidate[];
  readonly route: ProxyRoute | null;
  readonly connectTimeoutMs: number;
  readonly secureContext: SecureContext;
  readonly signal: AbortSignal;
  readonly onDial: ((dialled: Dialled) => void) | undefined;
};

export type Connection = {
  readonly socket: Socket;
  readonly candidate: Candidate;
  /** Set if there is no tunnel: the proxy reads the requests and forwards them. */
  readonly proxyHeaders: Readonly<Record<string, string>> | null;
};

/** Connects to one of the checked addresses, with TLS for https. */
export async function connectTo(params: ConnectionParams): Promise<Connection> {
  const connection = await tryInTurn(params);
  const { target, connectTimeoutMs: ms, secureContext: context, signal } = params;
  if (!target.isSecure) return connection;
  const { socket } = connection;
  const { host } = target;
  const isLiteral = target.literal !== null;
  const fault = () => new EgressFault('TLS', `${host} did not finish the TLS handshake within ${ms} ms`);
  const handshake = (phase: AbortSignal) => secure({ socket, host, isLiteral, context, signal: phase });
  try {
    return { ...connection, socket: await within({ ms, signal, fault }, handshake) };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Each attempt gets an equal share of the remaining time, so that a silent address leaves time for the next. */
async function tryInTurn(params: ConnectionParams): Promise<Connection> {
  const endsAt = performance.now() + params.connectTimeoutMs;
  let last = new EgressFault('CONNECT', 'there is no address to connect to');
  for (const [index, candidate] of params.candidates.entries()) {
    const ms = Math.max(1, (endsAt - performance.now()) / (params.candidates.length - index));
    const code = params.route === null ? 'CONNECT' : 'PROXY';
    const fault = () => new EgressFault(code, `${candidate.text} did not respond within ${Math.round(ms)} ms`);
    try {
      const { signal } = params;
      return await within({ ms, signal, fault }, (phase) => reach(candidate, params, phase));
    } catch (error) {
      params.signal.throwIfAborted();
      last = faultFrom(error, code);
    }
  }
  throw last;
}

async function reach(to: Candidate, params: ConnectionParams, signal: AbortSignal): Promise<Connection> {
  const { route, onDial, target } = params;
  const { port } = target;
  const reached = { candidate: to, proxyHeaders: null };
  if (route === null) {
    onDial?.({ address: to.text, port, via: 'direct' });
    return { ...reached, socket: await dial({ to, port, signal }) };
  }
  const { proxy } = route;
  const socket = await dialProxy(route, onDial, signal);
  try {
    await openTunnel({ socket, proxy, to, port, signal });
    return { ...reached, socket };
  } catch (error) {
    // Many proxies open tunnels to port 443 only. A name is never sent to a proxy, which might resolve it to a private address.
    const mayForward = route.mayForward && !target.isSecure && target.literal !== null;
    if (!mayForward || !(error instanceof TunnelRefused && error.isForAllTargets)) throw error;
    return { ...reached, socket: await dialProxy(route, onDial, signal), proxyHeaders: authorizationOf(proxy) };
  }
}

async function dialProxy({ proxy, addresses }: ProxyRoute, onDial: ConnectionParams['onDial'], signal: AbortSignal): Promise<Socket> {
  let last: unknown;
  for (const to of addresses) {
    onDial?.({ address: to.text, port: proxy.port, via: proxy.kind });
    try {
      return await dial({ to, port: proxy.port, signal });
    } catch (error) {
      signal.throwIfAborted();
      last = error;
    }
  }
  throw new EgressFault('PROXY', `the proxy cannot be reached: ${last instanceof Error ? last.message : 'it has no address'}`);
}
