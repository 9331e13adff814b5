/** Opens the API page in jsdom, which runs its scripts as a browser does. jsdom enforces no content security policy. */
import { JSDOM } from 'jsdom';
import { onTestFinished } from 'vitest';
import { until } from '../until.ts';

export class Page {
  readonly #dom: JSDOM;
  /** The texts that a script wrote into style attributes, which a policy without 'unsafe-inline' forbids. `element.style` is allowed. */
  readonly inlineStyles: readonly string[];

  private constructor(dom: JSDOM, inlineStyles: readonly string[]) {
    this.#dom = dom;
    this.inlineStyles = inlineStyles;
  }

  /** Loads /docs of the server and waits until it shows the operations. */
  static async load(url: string): Promise<Page> {
    const inlineStyles: string[] = [];
    const dom = await JSDOM.fromURL(`${url}/docs`, {
      runScripts: 'dangerously',
      resources: 'usable',
      pretendToBeVisual: true,
      beforeParse(window) {
        // jsdom has no fetch and does not scroll; the page does both.
        const fromServer = (path: string) => fetch(new URL(path, url));
        const { setAttribute } = window.Element.prototype;
        window.Element.prototype.setAttribute = function (name, value) {
          if (name.toLowerCase() === 'style') inlineStyles.push(value);
          setAttribute.call(this, name, value);
        };
        Object.assign(window, { fetch: fromServer, Request, Response, Headers, scrollTo: () => {} });
      },
    });
    onTestFinished(() => dom.window.close());
    const page = new Page(dom, inlineStyles);
    await until('the page shows its operations', () => page.all('.opblock').length > 0);
    return page;
  }

  all(selector: string): Element[] {
    return [...this.#dom.window.document.querySelectorAll(selector)];
  }

  get title(): string {
    return this.#dom.window.document.title;
  }

  get text(): string {
    return this.#dom.window.document.body.textContent ?? '';
  }
}
