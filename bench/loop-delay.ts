// Loaded into a platform by --import: writes how late its event loop was since it was last asked, on SIGUSR2.
import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const resolution = 5
const delays = monitorEventLoopDelay({ resolution })
delays.enable()
process.on('SIGUSR2', () => {
  const late = (nanos: number) => Math.max(0, nanos / 1e6 - resolution)
  const told = { p99_ms: late(delays.percentile(99)), max_ms: late(delays.max) }
  writeFileSync(process.env['LOOP_DELAY_FILE']!, JSON.stringify(told))
  delays.reset()
})
