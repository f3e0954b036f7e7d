// GET /metrics for Prometheus. The values come from kernel/metrics.ts.
import { metricsApi } from '@plinth/contract/metrics.ts'
import type { Metrics } from '#src/kernel/metrics.ts'
import type { Service } from '#src/planes/service.ts'

const headers = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' }

export const openMetrics = (metrics: Metrics): Service => ({
  name: 'metrics',
  mount: to =>
    to.metrics(metricsApi, { read: async () => ({ status: 200, headers, body: await metrics.text() }) }),
})
