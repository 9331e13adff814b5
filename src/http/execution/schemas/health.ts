import { Type } from 'typebox';
import { shape } from '../../shared/shapes.ts';

export const ExecutionHealth = shape('ExecutionHealth', {
  status: Type.Literal('ok'),
  workers: Type.Integer({ minimum: 1, description: 'Workers alive that run jobs of this API.' }),
  latency_ms: Type.Number({ description: 'How long the database took to answer.' }),
});
