import type { KeyGrant } from '../../services/execution/issue-key.ts';

export const renderKey = ({ apiKey, keyId, createdAt, expiresAt }: KeyGrant) => ({
  api_key: apiKey,
  key_id: keyId,
  created_at: createdAt.toISOString(),
  expires_at: expiresAt.toISOString(),
});
