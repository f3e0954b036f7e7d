// A program that is run for its output and for the CPU it took.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { endedChildrenCpuMicros } from './measure.ts'

export interface Run {
  stdout: string
  stderr: string
  /** Right when no other child ends meanwhile. */
  cpuMicros: number
}

/** Unlike `spawnSync` it leaves this process free to do something beside it. */
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
