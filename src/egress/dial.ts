import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { type SecureContext, connect as startTls, type TLSSocket } from 'node:tls';
import { type IpAddress, isSameAddress, parseIp } from '../core/ip-address.ts';
import { EgressFault, type FaultCode } from './fault.ts';
import { openWithSpace } from './read-space.ts';

/** A checked address, with its text. */
export type Candidate = { readonly text: string; readonly address: IpAddress };

export type DialParams = {
  readonly to: Candidate;
  readonly port: number;
  readonly signal: AbortSignal;
  readonly open?: (options: NetConnectOpts) => Socket;
};

const MAPPED = 0xffff_0000_0000n;
const V4_BITS = 0xffff_ffffn;

/** Connects to exactly this address, without DNS and without a fallback, and verifies the peer. */
export async function dial(params: DialParams): Promise<Socket> {
  const { to, port, signal } = params;
  signal.throwIfAborted();
  const family = to.address.version;
  const open = params.open ?? connect;
  const socket = openWithSpace((onread) => open({ host: to.text, port, family, autoSelectFamily: false, noDelay: true, onread }));
  await ready({ socket, event: 'connect', signal, code: 'CONNECT' });
  if (isPeer(socket.remoteAddress, to.address)) return socket;
  socket.destroy();
  throw new EgressFault('CONNECT', `the connection reached another address than ${to.text}`);
}

/** A dual-stack socket reports an IPv4 peer as a mapped IPv6 address, which is accepted only here. */
function isPeer(remote: string | undefined, dialled: IpAddress): boolean {
  const peer = remote === undefined ? null : parseIp(remote);
  if (peer === null) return false;
  if (isSameAddress(peer, dialled)) return true;
  return dialled.version === 4 && peer.version === 6 && peer.value === (MAPPED | (dialled.value & V4_BITS));
}

export type SecureParams = {
  readonly socket: Socket;
  readonly host: string;
  readonly isLiteral: boolean;
  readonly context: SecureContext;
  readonly signal: AbortSignal;
};

/** Always verifies the certificate, for the host of the URL and not for the address. */
export async function secure(params: SecureParams): Promise<TLSSocket> {
  const { host, isLiteral, signal, context, socket } = params;
  const tls = startTls({
    socket,
    host,
    servername: isLiteral ? '' : host,
    ALPNProtocols: ['http/1.1'],
    secureContext: context,
    rejectUnauthorized: true,
  });
  await ready({ socket: tls, event: 'secureConnect', signal, code: 'TLS' });
  return tls;
}

type Readying = {
  readonly socket: Socket;
  readonly event: 'connect' | 'secureConnect';
  readonly signal: AbortSignal;
  readonly code: FaultCode;
};

/** Waits for the event. Destroys the socket on any failure. */
async function ready({ socket, event, signal, code }: Readying): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // This listener stays, so that a later error of the socket is never unhandled.
  const onError = (error: Error) => reject(new EgressFault(code, error.message));
  const onClose = () => reject(new EgressFault(code, 'the peer closed the connection before it was ready'));
  const onAbort = () => reject(signal.reason);
  socket.once(event, resolve).on('error', onError).once('close', onClose);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    await promise;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    socket.off('close', onClose);
    signal.removeEventListener('abort', onAbort);
  }
}
