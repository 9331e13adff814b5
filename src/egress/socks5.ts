import type { Socket } from 'node:net';
import type { IpAddress } from '../core/ip-address.ts';
import type { TunnelParams } from './connect-tunnel.ts';
import { EgressFault } from './fault.ts';
import type { ProxyAddress } from './proxy-address.ts';
import { askProxy } from './proxy-dialogue.ts';

const VERSION = 5;
const AUTH_VERSION = 1;
const NO_AUTH = 0;
const PASSWORD = 2;
const CONNECT = 1;
const ADDRESS_TYPE = { 4: 1, 6: 4 } as const;
const ADDRESS_BYTES = { 4: 4, 6: 16 } as const;
/** Version, reply, reserved and address type in front, the port behind. */
const REPLY_FRAME = 6;
const MAX_REPLY_BYTES = REPLY_FRAME + 256;

const REPLIES: readonly string[] = [
  'succeeded',
  'the proxy failed',
  'the proxy does not allow this connection',
  'the network is unreachable',
  'the host is unreachable',
  'the connection was refused',
  'the time to live expired',
  'the proxy does not know the command',
  'the proxy does not know the address type',
];

/** SOCKS5 (RFC 1928, RFC 1929) with the checked address; the form that carries a name is never used. */
export async function openSocks5(params: TunnelParams): Promise<void> {
  try {
    await greet(params);
    await requestConnection(params);
  } catch (error) {
    params.socket.destroy();
    throw error;
  }
}

async function greet({ socket, signal, proxy }: TunnelParams): Promise<void> {
  const methods = proxy.username === null ? [NO_AUTH] : [NO_AUTH, PASSWORD];
  const [version, method] = await askTwo(socket, signal, Buffer.from([VERSION, methods.length, ...methods]));
  if (version !== VERSION) throw new EgressFault('PROXY', 'the proxy does not speak SOCKS5');
  if (method === NO_AUTH) return;
  if (method !== PASSWORD || proxy.username === null) {
    throw new EgressFault('PROXY', 'the proxy accepts none of the ways to log in');
  }
  const [, status] = await askTwo(socket, signal, credentialsOf(proxy));
  if (status !== 0) throw new EgressFault('PROXY', 'the proxy refused the credentials');
}

function askTwo(socket: Socket, signal: AbortSignal, say: Buffer): Promise<Buffer> {
  return askProxy({ socket, signal, say, lengthOf: (bytes) => (bytes.length < 2 ? null : 2), limit: 2 });
}

function credentialsOf(proxy: ProxyAddress): Buffer {
  const username = Buffer.from(proxy.username ?? '');
  const password = Buffer.from(proxy.password ?? '');
  return Buffer.concat([
    Buffer.from([AUTH_VERSION, username.length]),
    username,
    Buffer.from([password.length]),
    password,
  ]);
}

async function requestConnection({ socket, signal, to, port }: TunnelParams): Promise<void> {
  const say = Buffer.concat([
    Buffer.from([VERSION, CONNECT, 0, ADDRESS_TYPE[to.address.version]]),
    bytesOf(to.address),
    Buffer.from([port >> 8, port & 0xff]),
  ]);
  const reply = await askProxy({ socket, signal, say, lengthOf: replyLength, limit: MAX_REPLY_BYTES });
  if (reply[0] !== VERSION) throw new EgressFault('PROXY', 'the proxy does not speak SOCKS5');
  if (reply[1] !== 0) throw new EgressFault('PROXY', REPLIES[reply[1] ?? 1] ?? `the proxy answered ${reply[1]}`);
}

/** A reply that is no success may end wherever the proxy likes, so its first two bytes are enough. */
function replyLength(bytes: Buffer): number | null {
  const [, reply, , type, nameLength] = bytes;
  if (reply !== undefined && reply !== 0) return bytes.length;
  if (type === ADDRESS_TYPE[4]) return REPLY_FRAME + ADDRESS_BYTES[4];
  if (type === ADDRESS_TYPE[6]) return REPLY_FRAME + ADDRESS_BYTES[6];
  return nameLength === undefined ? null : REPLY_FRAME + 1 + nameLength;
}

function bytesOf(address: IpAddress): Buffer {
  const length = ADDRESS_BYTES[address.version];
  return Buffer.from(address.value.toString(16).padStart(length * 2, '0'), 'hex');
}
