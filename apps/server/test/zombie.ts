// Zombies: ended processes that their parent never waits for, as in a container whose process 1 does not reap.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

interface Family {
  /** Killing it lets the system reap the child. */
  parent: ChildProcess
  pid: number
}

/** Starts a command as the child of a process that never waits for it. */
export async function underNeglectfulParent(
  command: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; uid?: number; gid?: number } = {},
): Promise<Family> {
  // The shell says the child's pid on file descriptor 3 and becomes `sleep`, which does not know of the child.
  const script = '"$@" 3>&- & echo $! >&3; exec 3>&-; exec sleep 600'
  const parent = spawn('sh', ['-c', script, 'sh', ...command], {
    ...options,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
  const [text] = await once(parent.stdio[3]!, 'data')
  // A child that ends sooner might still be reaped by the shell.
  await eventually(() => nameOf(parent.pid!) === 'sleep', 'a parent that has become sleep')
  return { parent, pid: Number.parseInt(String(text), 10) }
}

export async function makeZombie(options: { uid?: number; gid?: number } = {}): Promise<Family> {
  const family = await underNeglectfulParent(['sleep', '600'], options)
  process.kill(family.pid, 'SIGKILL')
  await untilZombie(family.pid)
  return family
}

export const untilZombie = (pid: number) => eventually(() => statOf(pid).state === 'Z', `a zombie ${pid}`)

/** Field 3 of /proc/<pid>/stat is the state, field 22 the time the process started. */
export function statOf(pid: number): { state: string; startTime: string } {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0]!, startTime: fields[19]! }
}

const nameOf = (pid: number) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()

async function eventually(holds: () => boolean, what: string): Promise<void> {
  for (const end = Date.now() + 30_000; !holds(); await sleep(10)) assert.ok(Date.now() < end, what)
}
