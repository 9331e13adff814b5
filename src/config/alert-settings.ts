import { type Setting, setting, TEXT } from './setting.ts';

export const ALERT_SECTIONS = {
  alerts: {
    webhook_url: setting(TEXT, null, 'the URL that new alerts are sent to, under the rules of `[egress]`; none by default', {
      secret: 'whole',
    }),
    webhook_secret: setting(
      { type: 'text', minLength: 16 },
      null,
      'the secret that signs these messages as Standard Webhooks says: `whsec_` and base64, or any text; without it they are not signed',
      { secret: 'whole' },
    ),
  },
} as const satisfies Record<string, Record<string, Setting>>;
