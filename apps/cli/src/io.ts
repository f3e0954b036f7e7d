// What a run of the command line gets from its process, or from a test that calls it.
import type { Readable, Writable } from 'node:stream'
import type { Environment } from './environment.ts'

export type Input = Readable & { isTTY?: boolean; setRawMode?(isRaw: boolean): unknown }
export type Output = Writable & { isTTY?: boolean; columns?: number }

export interface Io {
  readonly env: Environment
  readonly cwd: string
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
  /**
   * Aborts on Ctrl-C, a kill or a closed terminal. A command that asks for it cleans up and ends by itself; without
   * it the process ends at once.
   */
  interruption(): AbortSignal
  /** Files that are deleted if the process ends before the command finishes. */
  readonly temporaryFiles: Set<string>
}
