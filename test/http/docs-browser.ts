/** As much of a browser as the API page needs: elements, text, and what a person types. */
import { runInNewContext } from 'node:vm';

class Element {
  readonly children: (Element | string)[] = [];
  readonly attributes = new Map<string, string>();
  readonly #listeners = new Map<string, (() => void)[]>();
  value = '';
  open = false;

  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }

  append(...children: (Element | string)[]): void {
    this.children.push(...children);
  }

  replaceChildren(...children: (Element | string)[]): void {
    this.children.splice(0, this.children.length, ...children);
  }

  addEventListener(event: string, listener: () => void): void {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  dispatch(event: string): void {
    for (const listener of this.#listeners.get(event) ?? []) listener();
  }

  get textContent(): string {
    return this.children.map((child) => (typeof child === 'string' ? child : child.textContent)).join('');
  }

  set textContent(text: string) {
    this.replaceChildren(text);
  }
}

export class Page {
  readonly #byId: Map<string, Element>;

  private constructor(byId: Map<string, Element>) {
    this.#byId = byId;
  }

  /** Loads /docs of the server and runs the script that is in it. */
  static async load(url: string): Promise<Page> {
    const html = await (await fetch(`${url}/docs`)).text();
    const byId = new Map([...html.matchAll(/ id="(\w+)"/g)].map(([, id]) => [id as string, new Element()]));
    const script = html.match(/<script>([\s\S]+)<\/script>/)?.[1] as string;
    await runInNewContext(script.trim().replace(/^'use strict';\n/, ''), {
      ...{ setTimeout, encodeURIComponent, location: { origin: url, hash: '' } },
      fetch: (path: string) => fetch(`${url}${path}`),
      document: { createElement: () => new Element(), getElementById: (id: string) => byId.get(id) },
    });
    return new Page(byId);
  }

  text(id: string): string {
    return this.#byId.get(id)?.textContent ?? '';
  }

  type(id: string, text: string): void {
    const input = this.#byId.get(id) as Element;
    input.value = text;
    input.dispatch('input');
  }
}
