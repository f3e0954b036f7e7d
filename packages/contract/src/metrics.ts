import type { Routes } from './route.ts'
import { Type } from './type.ts'

export const metricsApi = {
  read: {
    plane: 'management',
    method: 'GET',
    path: '/metrics',
    scope: 'none',
    atRoot: 'only',
    raw: true,
    summary: 'Metrics for Prometheus: with PLATFORM_METRICS_TOKEN, or without one from the same machine',
    reply: Type.String({ description: 'Text format 0.0.4 of Prometheus.' }),
  },
} as const satisfies Routes
