import type { Engine } from '../../engine/engine.ts';
import { describeCategories } from '../../services/jobs/describe-categories.ts';
import type { Http } from '../door.ts';
import { needs } from './operation.ts';
import { JobCategories } from './schemas/category.ts';
import { answer, errorResponses } from './schemas/error.ts';

const schema = {
  operationId: 'listCategories',
  summary: 'List the categories of governed jobs',
  description: 'Returns the five categories with their queues, their retries and their rules. They are the same for every org.',
  response: { 200: answer(JobCategories, 'The categories.'), ...errorResponses() },
};

export function listCategoriesRoute(http: Http, { governance }: Engine): void {
  http.get('/categories', { schema, ...needs('jobs:read') }, async () => ({
    items: describeCategories(governance.categories),
    next_cursor: null,
  }));
}
