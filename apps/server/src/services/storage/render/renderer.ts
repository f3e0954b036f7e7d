// Renders images in other sizes and formats: one at a time for a project, two at a time for all projects.
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Log } from '#src/kernel/log.ts'
import { type Child, type JobOptions, type Outcome, startChild } from './child.ts'
import type { Problem } from './job.ts'
import { type Format, invalid, type Transformation } from './transformation.ts'

export const maxSourceBytes = 25 * 1024 * 1024
const maxPixels = 50_000_000
/** Per process. libvips loads some formats completely, with up to eight bytes per pixel. */
const maxMemoryBytes = 768 * 1024 * 1024
const concurrency = 2
/** Enough for a page full of thumbnails. Waiting jobs have not read their source yet. */
const maxWaiting = 64
const maxWaitMs = 20_000

export interface Rendered {
  bytes: Buffer
  contentType: string
}

export interface Renderer {
  /** Reads the source when the job starts, so that waiting jobs use no memory. */
  render(
    project: string,
    source: () => Promise<Buffer>,
    transformation: Transformation,
    format: Format,
  ): Promise<Rendered>
  close(): void
}

interface RendererDeps {
  log: Log
  timeLimitMs?: number
  /** An idle process is stopped after this time. */
  idleMs?: number
  memoryBytes?: number
}

export function createRenderer({
  log,
  timeLimitMs = 10_000,
  idleMs = 60_000,
  memoryBytes = maxMemoryBytes,
}: RendererDeps): Renderer {
  const limit = createLimiter({ concurrency, perKey: 1, maxWaiting, rejection: tooMany })
  const children = new Set<Child>()
  const idle = new Map<Child, NodeJS.Timeout>()
  const limits = {
    // The timeout of libvips is shorter, so that most jobs end without killing the process.
    seconds: Math.max(1, Math.floor(timeLimitMs / 1000) - 1),
    pixels: maxPixels,
    resultBytes: maxSourceBytes,
    memoryBytes,
  }
  let isClosed = false

  function removeChild(child: Child): void {
    clearTimeout(idle.get(child))
    idle.delete(child)
    children.delete(child)
  }

  function takeChild(): Child {
    const [waiting] = [...idle.keys()].slice(-1)
    if (!waiting) {
      const child = startChild(log, limits, removeChild)
      children.add(child)
      return child
    }
    clearTimeout(idle.get(waiting))
    idle.delete(waiting)
    return waiting
  }

  function putBack(child: Child): void {
    if (children.has(child)) idle.set(child, setTimeout(child.end, idleMs).unref())
  }

  async function attempt(source: Buffer, options: JobOptions): Promise<Outcome> {
    if (isClosed) return 'not started'
    const child = takeChild()
    const outcome = await child.ask(source, options, timeLimitMs)
    if (typeof outcome === 'string' || outcome.shouldRestart) removeChild(child)
    else putBack(child)
    return outcome
  }

  async function work(source: Buffer, options: JobOptions): Promise<Rendered> {
    let outcome = await attempt(source, options)
    // Retry once: the cause may be outside the job, such as the OOM killer.
    if (outcome === 'exited' || outcome === 'not started') outcome = await attempt(source, options)
    if (outcome === 'not started') throw slowDown(503, 'Images cannot be rendered at the moment')
    if (outcome === 'exited') throw invalid('The image cannot be rendered; save it anew and upload that')
    if (outcome === 'timed out') throw refused('too long')
    if ('problem' in outcome) throw refused(outcome.problem)
    const { bytes, contentType } = outcome
    return { bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), contentType }
  }

  return {
    render(project, source, transformation, format) {
      const askedAt = performance.now()
      return limit(project, async () => {
        if (performance.now() - askedAt > maxWaitMs) throw tooMany()
        const bytes = await withTimeout(source(), timeLimitMs)
        if (bytes.length > maxSourceBytes) throw invalid(tooLargeSource)
        return work(bytes, { transformation, format })
      })
    },
    close() {
      isClosed = true
      for (const child of children) child.end()
    },
  }
}

const tooLargeSource = `Images of more than ${maxSourceBytes / 1024 / 1024} MB are not rendered`

const wording: Record<Problem, string> = {
  'not an image': 'The file is not an image of a kind that can be rendered: JPEG, PNG, WebP, GIF, AVIF, TIFF',
  'too many pixels': `Images of more than ${maxPixels / 1_000_000} megapixels are not rendered`,
  damaged: 'The image is damaged or cut short',
  'too long': 'Rendering the image takes too long; ask for a smaller size, or upload a smaller image',
  'too much memory': 'Rendering the image takes too much memory; upload a smaller image',
  'too large': 'The result would be too large; ask for a smaller size or another format',
}
const refused = (problem: Problem) => invalid(wording[problem])

const slowDown = (status: number, message: string) =>
  new Refusal({ code: 'SlowDown', status }, message, { headers: { 'retry-after': '1' } })
const tooMany = () =>
  slowDown(429, 'Too many images are being rendered for this project; try again in a second')

/** A hanging object store must not block one of the few slots. */
async function withTimeout(reading: Promise<Buffer>, timeLimitMs: number): Promise<Buffer> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(slowDown(503, 'The image cannot be read at the moment')), timeLimitMs)
  })
  try {
    return await Promise.race([reading, late])
  } finally {
    clearTimeout(timer)
  }
}
