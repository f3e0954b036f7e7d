// Counts answers by service, plane and class of status. The names are those of services, so the number of series is bounded.
import { head, type Metric, sampleLine } from '#src/kernel/metrics.ts'
import type { Answered, Observe } from './observation.ts'
import type { HttpServer } from './server.ts'

export interface RequestMetrics {
  observe: Observe
  lines(): string[]
}

type Plane = 'data' | 'management' | 'none'
const planes: readonly Plane[] = ['data', 'management', 'none']
const classes = ['1xx', '2xx', '3xx', '4xx', '5xx']
const boundsSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const boundsMs = boundsSeconds.map(seconds => seconds * 1000)

interface Series {
  /** By class of status. */
  answers: number[]
  /** By bound, and one for answers above all bounds. */
  buckets: number[]
  ms: number
  bytesIn: number
  bytesOut: number
}

const newSeries = (): Series => ({
  answers: classes.map(() => 0),
  buckets: [...boundsMs.map(() => 0), 0],
  ms: 0,
  bytesIn: 0,
  bytesOut: 0,
})

export function createRequestMetrics(): RequestMetrics {
  const byPlane: Record<Plane, Map<string, Series>> = {
    data: new Map(),
    management: new Map(),
    none: new Map(),
  }

  function observe({ service, route, status, ms, bytesIn, bytesOut }: Answered): void {
    const ofPlane = byPlane[planeOf(route)]
    let series = ofPlane.get(service)
    if (!series) {
      series = newSeries()
      ofPlane.set(service, series)
    }
    series.answers[Math.min(Math.max(Math.trunc(status / 100), 1), 5) - 1]!++
    let bucket = 0
    while (bucket < boundsMs.length && ms > boundsMs[bucket]!) bucket++
    series.buckets[bucket]!++
    series.ms += ms
    series.bytesIn += bytesIn
    series.bytesOut += bytesOut
  }

  function lines(): string[] {
    const all = planes.flatMap(plane =>
      [...byPlane[plane]].map(([service, series]) => ({ labels: { service, plane }, series })),
    )
    if (all.length === 0) return []
    const sums = (name: string, help: string, value: (series: Series) => number) => [
      ...head(name, 'counter', help),
      ...all.map(({ labels, series }) => sampleLine(name, labels, value(series))),
    ]
    return [
      ...head(names.requests, 'counter', 'Answers, by the class of their status.'),
      ...all.flatMap(({ labels, series }) =>
        classes.flatMap((status, index) => {
          const count = series.answers[index]!
          return count > 0 ? [sampleLine(names.requests, { ...labels, status }, count)] : []
        }),
      ),
      ...head(names.duration, 'histogram', 'Seconds until an answer was sent.'),
      ...all.flatMap(({ labels, series }) => histogramLines(labels, series)),
      ...sums('plinth_http_received_bytes_total', 'Bytes of requests.', ({ bytesIn }) => bytesIn),
      ...sums('plinth_http_sent_bytes_total', 'Bytes of answers.', ({ bytesOut }) => bytesOut),
    ]
  }

  return { observe, lines }
}

export const socketMetrics = ({ countSockets }: Pick<HttpServer, 'countSockets'>): readonly Metric[] =>
  (
    [
      ['realtime', 'sockets'],
      ['function', 'tunnels'],
    ] as const
  ).map(([kind, field]) => ({
    name: 'plinth_sockets',
    type: 'gauge',
    help: 'Open WebSockets: of realtime, and those that functions accept.',
    labels: { kind },
    read: () => countSockets()[field],
  }))

const names = {
  requests: 'plinth_http_requests_total',
  duration: 'plinth_http_request_duration_seconds',
}

function histogramLines(labels: { service: string; plane: Plane }, { buckets, ms }: Series): string[] {
  let count = 0
  const lines = buckets.map((inBucket, index) => {
    count += inBucket
    const le = index < boundsSeconds.length ? String(boundsSeconds[index]) : '+Inf'
    return sampleLine(`${names.duration}_bucket`, { ...labels, le }, count)
  })
  return [
    ...lines,
    sampleLine(`${names.duration}_sum`, labels, ms / 1000),
    sampleLine(`${names.duration}_count`, labels, count),
  ]
}

/** Requests that matched no route have the route `none`. */
const planeOf = (route: string): Plane =>
  route.startsWith('/v1') ? 'data' : route.startsWith('/') ? 'management' : 'none'
