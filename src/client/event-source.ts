/** One block of an event stream. A block without a name only updates the id or keeps the connection alive. */
export type ServerSentEvent = { id: string | null; event: string | null; data: string };

const MAX_BLOCK = 1_048_576;

/** Reads server-sent events from a body, as the HTML standard describes them. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const lines = new LineSplitter();
  let block = emptyBlock();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const line of lines.push(decoder.decode(value, { stream: true }))) {
        if (line !== '') take(block, line);
        else {
          yield { ...block, data: block.data.join('\n') };
          block = emptyBlock();
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

type Block = { id: string | null; event: string | null; data: string[] };

const emptyBlock = (): Block => ({ id: null, event: null, data: [] });

function take(block: Block, line: string): void {
  const colon = line.indexOf(':');
  const name = colon === -1 ? line : line.slice(0, colon);
  const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '');
  if (name === 'data') block.data.push(value);
  else if (name === 'id') block.id = value;
  else if (name === 'event') block.event = value;
}

/** Lines end with CR, LF or both, and a chunk may end anywhere. */
class LineSplitter {
  #rest = '';

  push(text: string): string[] {
    const all = this.#rest + text;
    // A CR at the end may be the first half of a CRLF.
    const isCut = all.endsWith('\r');
    const lines = (isCut ? all.slice(0, -1) : all).split(/\r\n|\r|\n/);
    this.#rest = (lines.pop() ?? '') + (isCut ? '\r' : '');
    if (this.#rest.length > MAX_BLOCK) throw new Error('A line of the event stream is too long.');
    return lines;
  }
}
