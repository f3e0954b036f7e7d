// Loaded into a platform by --import: writes how late its event loop was since it was last asked, on SIGUSR2. The time on
// the clock includes what the machine gave to others; the CPU time is what the platform's own code took.
import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const resolution = 5
const delays = monitorEventLoopDelay({ resolution })
delays.enable()

const cpuMs = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
let tickedAtMs = cpuMs()
let mostCpuMs = 0
setInterval(() => {
  const now = cpuMs()
  mostCpuMs = Math.max(mostCpuMs, now - tickedAtMs)
  tickedAtMs = now
}, resolution).unref()

process.on('SIGUSR2', () => {
  const late = (nanos: number) => Math.max(0, nanos / 1e6 - resolution)
  const told = { p99_ms: late(delays.percentile(99)), max_ms: late(delays.max), max_cpu_ms: mostCpuMs }
  writeFileSync(process.env['LOOP_DELAY_FILE']!, JSON.stringify(told))
  delays.reset()
  mostCpuMs = 0
})
