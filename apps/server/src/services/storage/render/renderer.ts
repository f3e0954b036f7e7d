// Images in other sizes and formats. Who asks much waits for itself; two at a time over all projects.
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { createTurns, createTurnsByOwner } from '#src/kernel/turns.ts'
import { type Child, type Outcome, startChild, type Wished } from './child.ts'
import type { Problem } from './job.ts'
import { type Format, invalid, type Transformation } from './transformation.ts'

export const maxSourceBytes = 25 * 1024 * 1024
const maxPixels = 50_000_000
/** Of one process; libvips must hold some images as a whole, at up to eight bytes a pixel. */
const maxMemoryBytes = 768 * 1024 * 1024
const places = 2
/** A page full of thumbnails must find room. What waits holds no bytes yet. */
const maxWaiting = 64
const maxWaitMs = 20_000

export interface Rendered {
  bytes: Buffer
  contentType: string
}

export interface Renderer {
  /** The source is read when it is its turn, so that what waits needs no memory. */
  render(
    project: string,
    source: () => Promise<Buffer>,
    wanted: Transformation,
    format: Format,
  ): Promise<Rendered>
  close(): void
}

interface RendererDeps {
  log: Log
  timeLimitMs?: number
  /** A process without work ends after this. */
  idleMs?: number
  memoryBytes?: number
}

export function createRenderer({
  log,
  timeLimitMs = 10_000,
  idleMs = 60_000,
  memoryBytes = maxMemoryBytes,
}: RendererDeps): Renderer {
  const ownTurn = createTurnsByOwner(1, maxWaiting)
  const anyTurn = createTurns(places)
  const children = new Set<Child>()
  const idle = new Map<Child, NodeJS.Timeout>()
  const limits = {
    // libvips ends most by itself, just before its process has to be ended.
    seconds: Math.max(1, Math.floor(timeLimitMs / 1000) - 1),
    pixels: maxPixels,
    resultBytes: maxSourceBytes,
    memoryBytes,
  }
  let isClosed = false

  function forget(child: Child): void {
    clearTimeout(idle.get(child))
    idle.delete(child)
    children.delete(child)
  }

  function takeChild(): Child {
    const [waiting] = [...idle.keys()].slice(-1)
    if (!waiting) {
      const child = startChild(log, limits, forget)
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

  async function attempt(source: Buffer, wished: Wished): Promise<Outcome> {
    if (isClosed) return 'unable'
    const child = takeChild()
    const outcome = await child.ask(source, wished, timeLimitMs)
    if (typeof outcome === 'string' || outcome.isSpent) forget(child)
    else putBack(child)
    return outcome
  }

  async function work(source: Buffer, wished: Wished): Promise<Rendered> {
    let outcome = await attempt(source, wished)
    // It may have been somebody else who ended it.
    if (outcome === 'gone' || outcome === 'unable') outcome = await attempt(source, wished)
    if (outcome === 'unable') throw slowDown(503, 'Images cannot be rendered at the moment')
    if (outcome === 'gone') throw invalid('The image cannot be rendered; save it anew and upload that')
    if (outcome === 'too late') throw refused('too long')
    if ('problem' in outcome) throw refused(outcome.problem)
    const { bytes, contentType } = outcome
    return { bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), contentType }
  }

  return {
    async render(project, source, wanted, format) {
      const asked = performance.now()
      let hasTurn = false
      const inTurn = async () => {
        hasTurn = true
        if (performance.now() - asked > maxWaitMs) throw tooMany()
        const bytes = await inTime(source(), timeLimitMs)
        if (bytes.length > maxSourceBytes) throw invalid(tooLargeSource)
        return work(bytes, { wanted, format })
      }
      try {
        return await ownTurn(project, () => anyTurn(inTurn))
      } catch (error) {
        throw !hasTurn && error instanceof Refusal ? tooMany() : error
      }
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

/** A store of files that hangs must not hold one of the few places. */
async function inTime(reading: Promise<Buffer>, timeLimitMs: number): Promise<Buffer> {
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
