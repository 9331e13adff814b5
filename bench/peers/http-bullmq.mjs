// node bench/peers/http-bullmq.mjs <port of Redis>: what people would build instead of the HTTP API of Millrace. A Fastify server checks the body and
// adds it to BullMQ. Started by http.mjs: reports its port, and ends with its parent.
import Fastify from 'fastify';
import { open } from './systems/bullmq.mjs';

const body = {
  type: 'object',
  required: ['type'],
  additionalProperties: false,
  properties: { type: { type: 'string', minLength: 1, maxLength: 255 }, payload: { type: 'object' }, work_kind: { type: 'string' } },
};

const bullmq = await open({ redisPort: Number(process.argv[2]) });
const http = Fastify({ logger: false });
http.post('*', { schema: { body } }, async (request, reply) => {
  const job = await bullmq.submit(request.body);
  return reply.code(202).send({ job_id: job.id, status: 'ACCEPTED', created_at: new Date(job.timestamp).toISOString() });
});
const address = await http.listen({ port: 0, host: '127.0.0.1' });
process.once('disconnect', async () => {
  await http.close();
  await bullmq.close();
  process.exit(0);
});
process.send?.({ port: Number(new URL(address).port), key: null });
