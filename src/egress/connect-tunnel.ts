import type { Socket } from 'node:net';
import type { Candidate } from './dial.ts';
import { EgressFault } from './fault.ts';
import type { ProxyAddress } from './proxy-address.ts';
import { askProxy } from './proxy-dialogue.ts';

export type TunnelParams = {
  readonly socket: Socket;
  readonly proxy: ProxyAddress;
  readonly to: Candidate;
  readonly port: number;
  readonly signal: AbortSignal;
};

const MAX_HEAD_BYTES = 8_192;
const HEAD_END = '\r\n\r\n';
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: |\r\n)/;

/** HTTP CONNECT (RFC 9110, 9.3.6) to the checked address; the proxy gets no name that it could resolve otherwise. */
export async function openConnectTunnel(params: TunnelParams): Promise<void> {
  const { socket, signal } = params;
  const head = await askProxy({ socket, signal, say: requestOf(params), lengthOf: headLength, limit: MAX_HEAD_BYTES });
  const status = statusOf(head);
  if (status === '200') return;
  socket.destroy();
  throw new EgressFault('PROXY', refusalOf(status));
}

function requestOf({ proxy, to, port }: TunnelParams): Buffer {
  const authority = to.address.version === 6 ? `[${to.text}]:${port}` : `${to.text}:${port}`;
  const lines = [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`];
  if (proxy.username !== null) {
    const credentials = Buffer.from(`${proxy.username}:${proxy.password ?? ''}`).toString('base64');
    lines.push(`Proxy-Authorization: Basic ${credentials}`);
  }
  return Buffer.from(lines.join('\r\n') + HEAD_END, 'latin1');
}

/** Behind a refusal may come a page that explains it; behind an accepted tunnel may come nothing. */
function headLength(bytes: Buffer): number | null {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return null;
  return statusOf(bytes) === '200' ? end + HEAD_END.length : bytes.length;
}

function statusOf(head: Buffer): string | undefined {
  return STATUS_LINE.exec(head.toString('latin1'))?.[1];
}

function refusalOf(status: string | undefined): string {
  if (status === undefined) return 'the proxy does not speak HTTP';
  if (status === '407') return 'the proxy wants credentials, or others than it was given';
  return `the proxy refused the tunnel with status ${status}`;
}
