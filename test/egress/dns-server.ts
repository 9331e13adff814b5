import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { parseIp } from '../../src/core/ip-address.ts';

type DnsType = 'A' | 'AAAA';
/** Addresses, of which those of the asked family are sent; a name is a CNAME and what follows it belongs to it. */
export type DnsAnswers = (name: string, type: DnsType, nth: number) => readonly string[] | 'silence' | 'failure';
export type DnsServer = {
  readonly address: string;
  queries(): readonly { readonly name: string; readonly type: DnsType }[];
  close(): Promise<void>;
};

const HEADER_BYTES = 12;
const TYPE = { A: 1, CNAME: 5, AAAA: 28 } as const;
const FLAGS = { answer: 0x8180, failure: 0x8182, unknownName: 0x8183 } as const;

export async function openDnsServer(answers: DnsAnswers): Promise<DnsServer> {
  const queries: { name: string; type: DnsType }[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, peer) => {
    const { name, type, end } = readQuestion(message);
    const nth = queries.filter((query) => query.name === name && query.type === type).length;
    queries.push({ name, type });
    const said = answers(name, type, nth);
    if (said === 'silence') return;
    const question = message.subarray(HEADER_BYTES, end);
    socket.send(reply({ id: message.readUInt16BE(0), question, name, type, said }), peer.port, peer.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    queries: () => queries,
    close: async () => {
      await once(socket.close(), 'close');
    },
  };
}

function readQuestion(message: Buffer): { name: string; type: DnsType; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = message[at]!; length > 0; length = message[at]!) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  const type = message.readUInt16BE(at + 1) === TYPE.AAAA ? 'AAAA' : 'A';
  return { name: labels.join('.').toLowerCase(), type, end: at + 5 };
}

type Reply = { id: number; question: Buffer; name: string; type: DnsType; said: readonly string[] | 'failure' };

function reply({ id, question, name, type, said }: Reply): Buffer {
  const records = said === 'failure' ? [] : recordsOf(name, type, said);
  const flags = said === 'failure' ? FLAGS.failure : said.length === 0 ? FLAGS.unknownName : FLAGS.answer;
  const header = Buffer.alloc(HEADER_BYTES);
  for (const [index, word] of [id, flags, 1, records.length, 0, 0].entries()) header.writeUInt16BE(word, index * 2);
  return Buffer.concat([header, question, ...records]);
}

function recordsOf(name: string, type: DnsType, said: readonly string[]): Buffer[] {
  let owner = name;
  return said.flatMap((entry) => {
    const address = parseIp(entry);
    if (address === null) {
      const record = recordOf(owner, TYPE.CNAME, encodeName(entry));
      owner = entry;
      return [record];
    }
    if ((address.version === 6) !== (type === 'AAAA')) return [];
    const digits = address.version === 6 ? 32 : 8;
    return [recordOf(owner, TYPE[type], Buffer.from(address.value.toString(16).padStart(digits, '0'), 'hex'))];
  });
}

/** Every record has a TTL of 0. */
function recordOf(owner: string, type: number, data: Buffer): Buffer {
  const fields = Buffer.alloc(10);
  fields.writeUInt16BE(type, 0);
  fields.writeUInt16BE(1, 2);
  fields.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(owner), fields, data]);
}

function encodeName(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  return Buffer.concat([...labels, Buffer.from([0])]);
}
