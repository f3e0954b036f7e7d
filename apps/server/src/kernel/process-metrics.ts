// Metrics of the process itself: CPU, memory and delays of the event loop. The first three have the names that dashboards for
// Prometheus expect.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import type { Metric } from './metrics.ts'
import { version } from './version.ts'

/** The timer of Node measures its own interval as well. */
const resolutionMs = 50
/** Two scrapers get the same delays instead of resetting them for each other. */
const windowMs = 5000

export function createProcessMetrics(): { metrics: readonly Metric[]; close(): void } {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs })
  delays.enable()
  let measuredAt = performance.now()
  let measured = { '0.5': 0, '0.99': 0, '1': 0 }

  const secondsOf = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - resolutionMs / 1000)
  function measure() {
    if (performance.now() - measuredAt < windowMs) return measured
    measuredAt = performance.now()
    measured = {
      '0.5': secondsOf(delays.percentile(50)),
      '0.99': secondsOf(delays.percentile(99)),
      '1': secondsOf(delays.max),
    }
    delays.reset()
    return measured
  }

  const gauge = (name: string, help: string, read: () => number): Metric => ({
    name,
    type: 'gauge',
    help,
    read,
  })
  const startedAt = Date.now() / 1000 - process.uptime()
  return {
    metrics: [
      {
        name: 'process_cpu_seconds_total',
        type: 'counter',
        help: 'CPU time of the process.',
        read() {
          const { user, system } = process.cpuUsage()
          return (user + system) / 1e6
        },
      },
      gauge('process_resident_memory_bytes', 'Memory of the process.', () => process.memoryUsage.rss()),
      gauge('process_start_time_seconds', 'When the process started, as Unix time.', () => startedAt),
      gauge('plinth_heap_bytes', 'JavaScript objects in memory.', () => getHeapStatistics().used_heap_size),
      ...(['0.5', '0.99', '1'] as const).map(quantile => ({
        ...gauge(
          'plinth_event_loop_delay_seconds',
          'Delays of the event loop since the scrape before; the quantile 1 is the longest.',
          () => measure()[quantile],
        ),
        labels: { quantile },
      })),
      { ...gauge('plinth_info', 'The version of the platform.', () => 1), labels: { version } },
    ],
    close: () => void delays.disable(),
  }
}
