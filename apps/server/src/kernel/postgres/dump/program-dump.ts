// Runs an installed pg_dump. It is used for servers that are newer than the pg_dump of the package.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { startProcess } from '#src/kernel/child-processes/process.ts'
import type { ServerAddress } from '../server-address.ts'
import { connectionString, dumpArguments } from './call.ts'
import { MessageTail } from './message-tail.ts'

export interface ProgramDump {
  address: ServerAddress
  database: string
  snapshot: string | undefined
  /** Directories that may have pg_dump, like PATH. */
  searchPath: string
  maxBytes: number
  signal: AbortSignal
}

export async function dumpWithProgram(dump: ProgramDump): Promise<Buffer> {
  const { address, database, snapshot, searchPath } = dump
  const directory = await mkdtemp(join(tmpdir(), 'plinth-pg-dump-'))
  try {
    const parameters = {
      host: address.host,
      port: String(address.port),
      ...(await tlsParameters(address, join(directory, 'authorities.pem'))),
    }
    return await run(dump, {
      binary: 'pg_dump',
      args: dumpArguments(connectionString(address, database, parameters), snapshot),
      env: { PATH: searchPath, LC_ALL: 'C', HOME: directory, PGPASSWORD: address.password },
      cwd: directory,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function run(
  { maxBytes, signal }: ProgramDump,
  command: Parameters<typeof startProcess>[0],
): Promise<Buffer> {
  const child = await startProcess(command)
  const kill = () => child.signal('SIGKILL')
  const messages = new MessageTail()
  const output: Buffer[] = []
  let length = 0
  child.process.stderr!.on('data', (bytes: Buffer) => messages.add(bytes.toString()))
  child.process.stdout!.on('data', (bytes: Buffer) => {
    length += bytes.length
    if (length <= maxBytes) output.push(bytes)
    else kill()
  })
  signal.addEventListener('abort', kill, { once: true })
  if (signal.aborted) kill()
  const ended = await child.closed
  signal.removeEventListener('abort', kill)
  signal.throwIfAborted()
  if (length > maxBytes) throw new Error(`The dump is larger than ${maxBytes / 1_000_000} MB.`)
  if (ended !== 'code 0') throw new Error(messages.text || `It ended with ${ended}.`)
  return Buffer.concat(output)
}

async function tlsParameters({ tls }: ServerAddress, file: string): Promise<Record<string, string>> {
  if (!tls) return { sslmode: 'disable' }
  if (!tls.rejectUnauthorized) return { sslmode: 'require' }
  await writeFile(file, tls.ca ?? rootCertificates.join('\n'))
  return { sslmode: tls.servername ? 'verify-full' : 'verify-ca', sslrootcert: file }
}
