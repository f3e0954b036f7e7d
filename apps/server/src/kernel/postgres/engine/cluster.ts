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
import { type Command, startProcess } from '#src/kernel/child-processes/process.ts'
import type { Place } from './place.ts'
import { engineEnvironment } from './settings.ts'

const temporaryPrefix = 'postgres.init-'

/**
 * Creates the cluster if there is none. It is created in a temporary directory and renamed when complete, so that a
 * process killed at any moment leaves no incomplete cluster. True if it was created now.
 */
export async function makeCluster(place: Place, native: string, superuserPassword: string): Promise<boolean> {
  const { home, clusterDir, user } = place
  for (const name of readdirSync(home)) {
    // If only Node was killed, its initdb may still be running and writing files.
    const retries = { maxRetries: 10, retryDelay: 50 }
    if (name.startsWith(temporaryPrefix))
      await rm(join(home, name), { recursive: true, force: true, ...retries })
  }
  if (existsSync(clusterDir)) return false
  if (!/^[^\r\n]+$/.test(superuserPassword))
    throw new Error('the superuser password must be one line of text')

  const temporary = mkdtempSync(join(home, temporaryPrefix))
  try {
    const made = join(temporary, 'cluster')
    const passwordFile = join(temporary, 'password')
    writeFileSync(passwordFile, `${superuserPassword}\n`, { mode: 0o600, flag: 'wx' })
    if (user) for (const path of [passwordFile, temporary]) chownSync(path, user.uid, user.gid)
    const run = { user, cwd: temporary, env: engineEnvironment }
    const initdb = { binary: join(native, 'bin/initdb'), args: initdbArguments(made, passwordFile) }
    await runToEnd({ ...run, ...initdb })
    const postgres = { binary: join(native, 'bin/postgres'), args: singleUserArguments(made) }
    await runToEnd({ ...run, ...postgres }, quietSessions)
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

function singleUserArguments(made: string): string[] {
  return ['--single', '-D', made, 'postgres']
}

/**
 * Tenants may use `raise log` and `debug_print_plan`, which log at the level of the server's own messages. So sessions
 * log only the next higher level. Only a superuser can change this setting.
 */
const quietSessions = "alter role all set log_min_messages = 'fatal';\n"

async function runToEnd(command: Omit<Command, 'stdio'>, input = ''): Promise<void> {
  const { process, exited } = await startProcess({ ...command, stdio: 'pipe' })
  process.stdin?.end(input)
  const [stdout, stderr, how] = await Promise.all([text(process.stdout!), text(process.stderr!), exited])
  if (how === 'code 0') return
  throw new Error(`${command.binary} ended with ${how}: ${(stderr || stdout).trim().slice(-2000)}`)
}

/** Without it, a power failure could undo the rename although files that were written into the cluster later survive. */
function syncDirectory(dir: string): void {
  const descriptor = openSync(dir, 'r')
  fsyncSync(descriptor)
  closeSync(descriptor)
}
