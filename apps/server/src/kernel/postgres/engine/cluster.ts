import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Place } from './place.ts'
import { type Command, startProcess } from './process.ts'

const nursery = 'postgres.init-'

/**
 * Makes the cluster if there is none, beside its place, and moves it there when it is complete: a kill at any
 * moment leaves nothing that could be taken for a cluster. True when it was made now.
 */
export async function makeCluster(place: Place, native: string, superuserPassword: string): Promise<boolean> {
  const { home, clusterDir, user } = place
  for (const name of readdirSync(home)) {
    // Its initdb may still be running, and writing, if only Node was killed.
    const retries = { maxRetries: 10, retryDelay: 50 }
    if (name.startsWith(nursery)) await rm(join(home, name), { recursive: true, force: true, ...retries })
  }
  if (existsSync(clusterDir)) return false
  if (!/^[^\r\n]+$/.test(superuserPassword))
    throw new Error('the superuser password must be one line of text')

  const temporary = mkdtempSync(join(home, nursery))
  try {
    const made = join(temporary, 'cluster')
    const passwordFile = join(temporary, 'password')
    writeFileSync(passwordFile, `${superuserPassword}\n`, { mode: 0o600, flag: 'wx' })
    if (user) for (const path of [passwordFile, temporary]) chownSync(path, user.uid, user.gid)
    const run = { ...(user && { user }), cwd: temporary }
    await complete({ ...run, binary: join(native, 'bin/initdb'), args: initdbArguments(made, passwordFile) })
    await complete({ ...run, binary: join(native, 'bin/postgres'), args: singleUser(made) }, quietSessions)
    renameSync(made, clusterDir)
    syncDirectory(home)
    return true
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

function initdbArguments(made: string, passwordFile: string): string[] {
  const access = ['-U', 'postgres', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`]
  const locale = ['-E', 'UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
  return ['-D', made, ...access, ...locale]
}

function singleUser(made: string): string[] {
  return ['--single', '-D', made, 'postgres']
}

/**
 * `raise log` and `debug_print_plan`, which any tenant may use, write at the level of the server's own messages.
 * So sessions log one level less than the server does; only a superuser could change it.
 */
const quietSessions = "alter role all set log_min_messages = 'fatal';\n"

async function complete(command: Omit<Command, 'stdio'>, input = ''): Promise<void> {
  const { child, exited } = await startProcess({ ...command, stdio: 'pipe' })
  child.stdin?.on('error', () => {}) // it ended without reading; its exit says why
  child.stdin?.end(input)
  const [stdout, stderr, how] = await Promise.all([text(child.stdout!), text(child.stderr!), exited])
  if (how === 'code 0') return
  throw new Error(`${command.binary} ended with ${how}: ${(stderr || stdout).trim().slice(-2000)}`)
}

/** Without it a power failure could undo the move although what was written into the cluster later survives. */
function syncDirectory(dir: string): void {
  const descriptor = openSync(dir, 'r')
  fsyncSync(descriptor)
  closeSync(descriptor)
}
