// Runs a program and returns its output and CPU time.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { endedChildrenCpuMicros } from './measure.ts'

export interface Run {
  stdout: string
  stderr: string
  /** Correct only if no other child ends meanwhile. */
  cpuMicros: number
}

/** Unlike `spawnSync` it does not block this process. */
export async function runToEnd(
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Run> {
  const { PATH = '' } = process.env
  const before = endedChildrenCpuMicros()
  const child = spawn(command, args, {
    env: { PATH, LC_ALL: 'C', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ])
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${stderr}${stdout}`)
  return { stdout, stderr, cpuMicros: endedChildrenCpuMicros() - before }
}
