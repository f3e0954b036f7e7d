// The process that renders, one image at a time. Whatever an image does to libvips, it does here.
import { writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import sharp, { type Metadata, type Sharp } from 'sharp'
import type { Answer, Job, Limits, Problem } from './job.ts'
import type { Transformation } from './transformation.ts'

/** What WebP can hold; others hold more. */
const longestSide = 16_383
const spentBytes = 256 * 1024 * 1024

const input = process.stdin[Symbol.asyncIterator]()
const limits = JSON.parse(process.argv[2]!) as Limits

// SVG, PDF and the like are programs of a kind. Everything is shut, then what is an image and nothing else is opened.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Heif', 'Tiff'].map(name => `VipsForeignLoad${name}Buffer`),
})
sharp.cache(false)
sharp.concurrency(1)

stepBack()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {}) // the platform ends it
process.on('disconnect', end)
process.on('message', (job: Job) => void perform(job))
process.send!('ready')

async function perform(job: Job): Promise<void> {
  const answer = await render(await receive(job.sourceBytes), job)
  process.send!(answer)
}

async function receive(length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  for (let filled = 0; filled < length; ) {
    const { value, done } = await input.next()
    if (done) end()
    else filled += (value as Buffer).copy(bytes, filled)
  }
  return bytes
}

async function render(bytes: Buffer, { wanted, format }: Job): Promise<Answer> {
  const watch = setInterval(() => {
    if (process.memoryUsage.rss() > limits.memoryBytes) giveUp()
  }, 20)
  try {
    const image = sharp(bytes, { autoOrient: true, failOn: 'error', limitInputPixels: limits.pixels })
    const metadata = await image.metadata()
    const output = format === 'origin' ? ownFormat(metadata) : format
    const resized = resize(image, wanted).timeout({ seconds: limits.seconds })
    const result = await encode(resized, output, wanted.quality).toBuffer()
    if (result.length > limits.resultBytes) return { problem: 'too large', isSpent: isSpent() }
    return { bytes: result, contentType: `image/${output}`, isSpent: isSpent() }
  } catch (error) {
    return { problem: problemOf(error as Error), isSpent: isSpent() }
  } finally {
    clearInterval(watch)
  }
}

/** Cover and fill with both sides give exactly that size; contain, or one side alone, never enlarges. */
function resize(image: Sharp, { width, height, resize: fit }: Transformation): Sharp {
  if (width && height && fit !== 'contain') return image.resize({ width, height, fit })
  return image.resize({
    width: width ?? longestSide,
    height: height ?? longestSide,
    fit: 'inside',
    withoutEnlargement: true,
  })
}

type Output = 'jpeg' | 'png' | 'webp' | 'gif' | 'avif'

/** By its bytes, whatever it was uploaded as. No browser shows TIFF, and of a GIF the first frame stays a GIF. */
function ownFormat({ format, hasAlpha }: Metadata): Output {
  if (format === 'heif') return 'avif'
  if (format === 'tiff') return hasAlpha ? 'png' : 'jpeg'
  return format as Output
}

/** The quality is for what loses some. The efforts are low: AVIF's usual one takes 12 s for the largest size. */
function encode(image: Sharp, output: Output, quality: number): Sharp {
  if (output === 'webp') return image.webp({ quality, effort: 2 })
  if (output === 'avif') return image.avif({ quality, effort: 0 })
  if (output === 'jpeg') return image.jpeg({ quality })
  return image.toFormat(output)
}

function problemOf({ message }: Error): Problem {
  if (/unsupported image format|is empty/.test(message)) return 'not an image'
  if (message.includes('exceeds pixel limit')) return 'too many pixels'
  return message.startsWith('timeout') ? 'too long' : 'damaged'
}

const isSpent = () => process.memoryUsage.rss() > spentBytes

function giveUp(): void {
  process.send!({ problem: 'too much memory', isSpent: true } satisfies Answer, undefined, undefined, end)
}

/** At once: an orderly exit would wait for libvips. */
function end(): void {
  process.kill(process.pid, 'SIGKILL')
}

/** Others come first, and when memory runs out this is what Linux ends. */
function stepBack(): void {
  try {
    setPriority(5)
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {} // not on this system
}
