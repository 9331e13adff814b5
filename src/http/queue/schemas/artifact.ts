import { Type } from 'typebox';
import { ARTIFACT_PURPOSES } from '../../../core/artifact.ts';
import { MAX_REASON_LENGTH } from '../../../core/governance/audit-action.ts';
import { Cursor, durationInput, Limit, named, shape, textOrNull, timestamp, word, wordOrNull } from './shapes.ts';

export const ArtifactId = Type.String({ description: 'The id of an artifact.', examples: ['5b1c2f0e-7c1d-4a86-9d0f-3f7f5a8c2e11'] });

export const ArtifactParams = Type.Object({ artifact_id: ArtifactId });

export const ArtifactHeaders = Type.Object({
  'x-artifact-name': Type.Optional(
    Type.String({
      description:
        "The name of the file: UTF-8, or percent-encoded after UTF-8'' as in UTF-8''na%C3%AFve.csv. At most 255 characters. By default artifact.",
    }),
  ),
  'x-checksum-sha256': Type.Optional(
    Type.String({
      description: 'The SHA-256 checksum of the bytes, in hexadecimal digits. It is verified, and required for X-Artifact-Purpose: import.',
    }),
  ),
  'x-artifact-purpose': Type.Optional(word(ARTIFACT_PURPOSES, 'import: the file is the input of an import, and its checksum is required.')),
  'x-reason': Type.Optional(Type.String({ maxLength: MAX_REASON_LENGTH, description: 'Why, for the audit trail.' })),
});

const ArtifactOwner = shape(
  'ArtifactOwner',
  {
    org_id: Type.String({ description: 'The org.' }),
    project_id: textOrNull('The project, if there is one.'),
    job_id: textOrNull('The job whose handler wrote the file. Null for an upload.'),
  },
  { description: 'Who may read an artifact: keys of its org, and of its project if it has one.' },
);

export const Artifact = shape(
  'Artifact',
  {
    artifact_id: ArtifactId,
    name: Type.String({ description: 'The name of the file.' }),
    size: Type.Integer({ description: 'The number of bytes.' }),
    sha256: Type.String({ description: 'The SHA-256 checksum of the bytes, in hexadecimal digits.' }),
    content_type: Type.String({ description: 'The media type.' }),
    purpose: wordOrNull(ARTIFACT_PURPOSES, 'What the file is for, if its upload said so.'),
    attempt: Type.Unsafe<number | null>({ type: ['integer', 'null'], description: 'The attempt of the job that wrote it.' }),
    created_at: timestamp('When it was stored.'),
    expires_at: timestamp('When it is removed.'),
    owner: named(ArtifactOwner),
  },
  { description: 'A stored file.' },
);

export const ArtifactList = shape(
  'ArtifactList',
  {
    items: Type.Array(named(Artifact), { description: 'Oldest first.' }),
    next_cursor: textOrNull('The cursor of the next page. Null for the last page.'),
  },
  { description: 'A page of the artifacts of a job.' },
);

export const ArtifactListQuery = Type.Object(
  { cursor: Type.Optional(Cursor), limit: Type.Optional(Limit) },
  { additionalProperties: false },
);

export const ContentQuery = Type.Object(
  { link: Type.Optional(Type.String({ maxLength: 500, description: 'The secret part of a link, which replaces the key.' })) },
  { additionalProperties: false },
);

export const LinkRequest = shape(
  'ArtifactLinkRequest',
  {
    expires_in: Type.Optional(
      durationInput('How long the link works: from 1 second to 7 days. By default 15 minutes. Short forms such as 15m work too.'),
    ),
    reason: Type.Optional(Type.String({ maxLength: MAX_REASON_LENGTH, description: 'Why, for the audit trail.' })),
  },
  { description: 'A wish for a link.' },
);

export const ArtifactLink = shape(
  'ArtifactLink',
  {
    url: Type.String({ description: 'Returns the bytes to everyone who has it.' }),
    expires_at: timestamp('When the link ends. It ends with the artifact at the latest.'),
  },
  { description: 'A signed link to the bytes of an artifact.' },
);

export { ArtifactOwner };
