// Loaded into a platform by --import. On SIGUSR2 it writes the delay of the event loop since the last signal. The wall time
// includes the time of other processes; the CPU time is that of the platform's own code.
import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const resolution = 5
const delays = monitorEventLoopDelay({ resolution })
delays.enable()

const cpuMs = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
let lastTickCpuMs = cpuMs()
let maxCpuMs = 0
setInterval(() => {
  const now = cpuMs()
  maxCpuMs = Math.max(maxCpuMs, now - lastTickCpuMs)
  lastTickCpuMs = now
}, resolution).unref()

process.on('SIGUSR2', () => {
  const delayMs = (nanos: number) => Math.max(0, nanos / 1e6 - resolution)
  const result = { p99_ms: delayMs(delays.percentile(99)), max_ms: delayMs(delays.max), max_cpu_ms: maxCpuMs }
  writeFileSync(process.env['LOOP_DELAY_FILE']!, JSON.stringify(result))
  delays.reset()
  maxCpuMs = 0
})
