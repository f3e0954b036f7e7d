// Zombie processes: ended processes whose parent does not reap them, as in a container whose process 1 does not reap.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { eventually } from './eventually.ts'

interface UnreapedProcess {
  /** Killing it lets the system reap the child. */
  parent: ChildProcess
  pid: number
}

/** Starts a command as the child of a process that does not reap it. */
export async function startUnreaped(
  command: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; uid?: number; gid?: number } = {},
): Promise<UnreapedProcess> {
  // The shell writes the child's pid to file descriptor 3 and becomes `sleep`, which does not wait for the child.
  const script = '"$@" 3>&- & echo $! >&3; exec 3>&-; exec sleep 600'
  const parent = spawn('sh', ['-c', script, 'sh', ...command], {
    ...options,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
  const [text] = await once(parent.stdio[3]!, 'data')
  // The shell could still reap a child that ends before this.
  await eventually(() => nameOf(parent.pid!) === 'sleep', 'the parent has become sleep')
  return { parent, pid: Number.parseInt(String(text), 10) }
}

export async function makeZombie(options: { uid?: number; gid?: number } = {}): Promise<UnreapedProcess> {
  const unreaped = await startUnreaped(['sleep', '600'], options)
  process.kill(unreaped.pid, 'SIGKILL')
  await untilZombie(unreaped.pid)
  return unreaped
}

export const untilZombie = (pid: number) =>
  eventually(() => statOf(pid).state === 'Z', `process ${pid} is a zombie`)

/** Field 3 of /proc/<pid>/stat is the state, field 22 the time the process started. */
export function statOf(pid: number): { state: string; startTime: string } {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0]!, startTime: fields[19]! }
}

const nameOf = (pid: number) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
