import type { Engine } from '../engine/engine.ts';
import { artifactStorage } from '../platform/artifacts.ts';
import { openObjectStore } from '../platform/object-store.ts';
import { type Connection, settingsOf, withEngine } from './connection.ts';

/** Opens the engine with the object store of the configuration. */
export function withArtifacts<T>(connection: Connection, work: (engine: Engine) => Promise<T>): Promise<T> {
  const { config } = settingsOf(connection.values);
  return withEngine(connection, async (engine) => {
    const store = await openObjectStore(config);
    engine.artifacts = artifactStorage(config, store);
    try {
      return await work(engine);
    } finally {
      await store.close();
    }
  });
}
