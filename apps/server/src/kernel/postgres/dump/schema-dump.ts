// Reads the schema of a database with pg_dump. Its custom format has each object with its owner, see contents.ts.
import { NotStarted } from '#src/kernel/child-processes/process.ts'
import { engineEnvironment } from '../engine/settings.ts'
import type { ServerAddress } from '../server-address.ts'
import { connectionString, dumpArguments } from './call.ts'
import { preparePinnedModule } from './pinned-module.ts'
import { dumpWithProgram } from './program-dump.ts'
import { maxMemoryBytes } from './thread-messages.ts'
import { dumpInThread } from './threaded-dump.ts'

export interface SchemaDumpOptions {
  address: ServerAddress
  database: string
  /** Of pg_export_snapshot(). */
  snapshot?: string
  /** The data directory of the platform, for the copy of the module. */
  dataDir: string
  /** When it aborts, the dump ends at once. */
  signal?: AbortSignal
  /** A longer dump fails. */
  maxBytes?: number
  /** Where to look for an installed pg_dump, like PATH. It is used if the server is newer than the pg_dump of the package. */
  searchPath?: string
}

/** The schema could not be read. The message has the reason that pg_dump reports. */
export class DumpFailed extends Error {
  override readonly name = 'DumpFailed'
}

const defaultMaxBytes = 256_000_000
/** The text of pg_dump for a server that is newer than itself. */
const newerServer = 'server version mismatch'

const outOfMemory = /out of memory|OOM/

/** The bytes of `pg_dump -Fc --compress=none --schema-only`. */
export async function dumpSchema(options: SchemaDumpOptions): Promise<Buffer> {
  const { signal } = options
  const ending = new AbortController()
  const cancel = () => ending.abort(new DumpFailed('The dump was cancelled.', { cause: signal?.reason }))
  signal?.addEventListener('abort', cancel, { once: true })
  if (signal?.aborted) cancel()
  try {
    ending.signal.throwIfAborted()
    return await dump(options, ending.signal)
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : failure(error as Error)
  } finally {
    signal?.removeEventListener('abort', cancel)
  }
}

async function dump(options: SchemaDumpOptions, signal: AbortSignal): Promise<Buffer> {
  const { address, database, snapshot, dataDir, maxBytes = defaultMaxBytes } = options
  // pg_dump does not open this socket. The path makes it neither ask for TLS nor look up a name.
  const parameters = { host: '/tmp', password: address.password, sslmode: 'disable' }
  const args = dumpArguments(connectionString(address, database, parameters), snapshot)
  const module = await preparePinnedModule(dataDir)
  try {
    return await dumpInThread({ module, address, args, maxBytes, signal })
  } catch (error) {
    if (signal.aborted || !(error as Error).message.includes(newerServer)) throw error
    const { searchPath = engineEnvironment.PATH } = options
    return await dumpWithProgram({ address, database, snapshot, searchPath, maxBytes, signal })
  }
}

function failure(error: Error): DumpFailed {
  if (error instanceof NotStarted)
    return new DumpFailed(
      'The database server is newer than Postgres 18. Install pg_dump of its version, where the platform finds it.',
      { cause: error },
    )
  if (outOfMemory.test(error.message))
    return new DumpFailed(`Reading the schema needs more than ${maxMemoryBytes / 2 ** 20} MiB of memory.`, {
      cause: error,
    })
  const reason = error.message.replaceAll(/connection to server on socket "[^"]*" failed: /g, '')
  return new DumpFailed(reason, { cause: error })
}
