import { Type } from 'typebox';
import { API_KEY_SCOPES } from '../../core/api-key.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word } from '../shared/shapes.ts';

const integerOrNull = (description: string) =>
  Type.Unsafe<number | null>({ type: ['integer', 'null'], minimum: 1, maximum: 2_147_483_647, description });

const NAME = 'Lower-case letters, digits, dots, dashes and underscores, at most 100. Unique.';
const Why = { reason: Type.Optional(Type.String({ maxLength: 1_000, description: 'Why, for the audit trail.' })) };
const NextCursor = textOrNull('The cursor of the next page; null on the last.');

export const OrgView = shape('Org', {
  org_id: Type.String({ format: 'uuid' }),
  name: Type.String({ description: NAME }),
  created_at: timestamp('When the org was created.'),
  requests_per_minute: integerOrNull('The rate limit of the org; null: as configured.'),
  max_running: integerOrNull('How many jobs of the org run at the same time; null: no cap.'),
});

export const OrgList = shape('OrgList', { items: Type.Array(named(OrgView)), next_cursor: NextCursor });

export const NewOrg = shape('NewOrg', {
  name: Type.String({ description: NAME, examples: ['acme'] }),
  requests_per_minute: Type.Optional(integerOrNull('The rate limit of the org. Default: as configured.')),
  ...Why,
});

export const OrgChange = shape('OrgChange', {
  name: Type.Optional(Type.String({ description: NAME })),
  requests_per_minute: Type.Optional(integerOrNull('The rate limit of the org; null restores the configured one.')),
  max_running: Type.Optional(integerOrNull('How many jobs of the org run at the same time; null removes the cap.')),
  ...Why,
});

export const OrgDeletion = shape('OrgDeletion', {
  confirm: Type.String({ description: 'The name of the org.', examples: ['acme'] }),
  ...Why,
});

export const DeletedOrg = shape('DeletedOrg', {
  org_id: Type.String({ format: 'uuid' }),
  state: word(['deleting'], 'The data is removed in bounded steps. The rows of the audit trail stay.'),
});

export const ProjectView = shape('Project', {
  project_id: Type.String({ format: 'uuid' }),
  org_id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  created_at: timestamp('When the project was created.'),
});

export const ProjectList = shape('ProjectList', { items: Type.Array(named(ProjectView)), next_cursor: NextCursor });

export const NewProject = shape('NewProject', {
  name: Type.String({ description: '1 to 100 characters, unique within the org.', examples: ['billing'] }),
  project_id: Type.Optional(Type.String({ description: 'The id, if you already have one for it. Default: a new id.' })),
  ...Why,
});

export const ProjectChange = shape('ProjectChange', { name: Type.String({ description: 'The new name.' }), ...Why });

const KEY_MEMBERS = {
  key_id: Type.String({ description: 'The part between the underscores of the key. It is not secret.' }),
  org_id: Type.String({ format: 'uuid' }),
  project_id: textOrNull('The project that the key is bound to; null: the whole org.'),
  name: Type.String({ description: 'The purpose of the key.' }),
  scopes: Type.Array(word(API_KEY_SCOPES), { description: 'What the key may do.' }),
  created_at: timestamp('When the key was created.'),
  expires_at: timestamp('When the key stops working.'),
};

export const KeyView = shape('ApiKey', {
  ...KEY_MEMBERS,
  status: word(['active', 'expired', 'revoked']),
  last_used_at: timestampOrNull('When the key was last used, to the minute.'),
  revoked_at: timestampOrNull('When the key was revoked.'),
});

export const KeyList = shape('ApiKeyList', { items: Type.Array(named(KeyView)), next_cursor: NextCursor });

export const NewKey = shape('NewApiKey', {
  name: Type.Optional(Type.String({ description: 'The purpose of the key. Default: api key.', examples: ['billing'] })),
  scopes: Type.Optional(
    Type.Array(Type.String({ examples: [...API_KEY_SCOPES] }), {
      maxItems: 100,
      description: 'What the key may do. Default: jobs:write, jobs:read, jobs:cancel and failures:read.',
    }),
  ),
  project_id: Type.Optional(textOrNull('Restricts the key to this project of the org.')),
  expires_in: Type.Optional(Type.String({ description: 'How long the key works. Default: 90 days.', examples: ['30d'] })),
  ...Why,
});

export const CreatedKey = shape('CreatedApiKey', {
  ...KEY_MEMBERS,
  api_key: Type.String({ description: 'The key. It is shown once and cannot be read again.' }),
});

export const RevokedKey = shape('RevokedApiKey', { key_id: Type.String(), revoked_at: timestamp('When the key was revoked first.') });

export const OrgParams = Type.Object({ org_id: Type.String({ description: 'The id of the org.' }) });
export const ProjectParams = Type.Object({
  org_id: Type.String({ description: 'The id of the org.' }),
  project_id: Type.String({ description: 'The id of the project.' }),
});
export const KeyParams = Type.Object({
  org_id: Type.String({ description: 'The id of the org.' }),
  key_id: Type.String({ description: 'The id of the key.' }),
});
