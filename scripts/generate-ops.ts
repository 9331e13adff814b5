/** npm run ops: writes the dashboard for Grafana and the alert rules for Prometheus. A test compares the files. */
import { writeFileSync } from 'node:fs';
import { alertRules } from './alert-rules.ts';
import { dashboard } from './dashboard.ts';

const at = (path: string): URL => new URL(`../ops/${path}`, import.meta.url);

writeFileSync(at('grafana/millrace.json'), dashboard());
writeFileSync(at('prometheus/alerts.yml'), alertRules());
