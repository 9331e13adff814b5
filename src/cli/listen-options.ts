import type { LoadParams } from '../config/load-config.ts';

export const LISTEN_OPTIONS = {
  port: { type: 'string', value: 'N', help: 'the port to listen on; default 8484' },
  host: { type: 'string', value: 'ADDRESS', help: 'the address to listen on; default 127.0.0.1' },
} as const;

export const listenSettings = ({ port, host }: { port?: string; host?: string }): LoadParams['options'] => ({
  'server.port': { option: 'port', text: port },
  'server.host': { option: 'host', text: host },
});
