// Reads the event loop delay of a platform from outside. The platform must be started with loop-delay.ts.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { StagedServer } from './stage.ts'

export interface LoopDelay {
  p99_ms: number
  max_ms: number
  /** The most CPU time of the thread between two ticks of a timer of 5 ms. */
  max_cpu_ms: number
}

export const loopWatch = (file: string) => ({
  nodeOptions: [`--import=${fileURLToPath(new URL('loop-delay.ts', import.meta.url))}`],
  env: { LOOP_DELAY_FILE: file },
  /** The delay since the last call. */
  async read(platform: StagedServer): Promise<LoopDelay> {
    rmSync(file, { force: true })
    process.kill(platform.pid, 'SIGUSR2')
    while (!existsSync(file)) await sleep(5)
    await sleep(20)
    return JSON.parse(readFileSync(file, 'utf8'))
  },
})
