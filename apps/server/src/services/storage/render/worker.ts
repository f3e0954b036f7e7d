// The render process. It renders one image at a time, so that a crash of libvips does not affect the platform.

import { writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import sharp, { type Metadata, type Sharp } from 'sharp'
import { startChore } from '#src/kernel/chores.ts'
import type { Answer, Job, Limits, Problem } from './job.ts'
import type { Transformation } from './transformation.ts'

/** The limit of WebP, which is the lowest of all formats. */
const longestSide = 16_383
const restartBytes = 256 * 1024 * 1024

const input = process.stdin[Symbol.asyncIterator]()
const limits = JSON.parse(process.argv[2]!) as Limits

// SVG, PDF and similar formats can contain code or references. Block all loaders, then allow the plain image formats.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Heif', 'Tiff'].map(name => `VipsForeignLoad${name}Buffer`),
})
sharp.cache(false)
sharp.concurrency(1)

lowerPriority()
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

async function render(bytes: Buffer, { transformation, format }: Job): Promise<Answer> {
  const watching = startChore({
    name: 'watch memory',
    everyMs: 20,
    run: () => process.memoryUsage.rss() > limits.memoryBytes && reportOutOfMemory(),
  })
  try {
    const image = sharp(bytes, { autoOrient: true, failOn: 'error', limitInputPixels: limits.pixels })
    const metadata = await image.metadata()
    const output = format === 'origin' ? originalFormat(metadata) : format
    const resized = resize(image, transformation).timeout({ seconds: limits.seconds })
    const result = await encode(resized, output, transformation.quality).toBuffer()
    if (result.length > limits.resultBytes) return { problem: 'too large', shouldRestart: shouldRestart() }
    return { bytes: result, contentType: `image/${output}`, shouldRestart: shouldRestart() }
  } catch (error) {
    return { problem: problemOf(error as Error), shouldRestart: shouldRestart() }
  } finally {
    void watching.stop()
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

/** Detected from the bytes, not from the uploaded type. Browsers do not display TIFF. A GIF keeps its first frame only. */
function originalFormat({ format, hasAlpha }: Metadata): Output {
  if (format === 'heif') return 'avif'
  if (format === 'tiff') return hasAlpha ? 'png' : 'jpeg'
  return format as Output
}

/** Quality applies to lossy formats. The effort is low, because the default of AVIF takes 12 s for the largest size. */
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

const shouldRestart = () => process.memoryUsage.rss() > restartBytes

function reportOutOfMemory(): void {
  process.send!(
    { problem: 'too much memory', shouldRestart: true } satisfies Answer,
    undefined,
    undefined,
    end,
  )
}

/** SIGKILL, because a normal exit would wait for libvips. */
function end(): void {
  process.kill(process.pid, 'SIGKILL')
}

/** Lowers the CPU priority, and makes this process the first victim of the OOM killer. */
function lowerPriority(): void {
  try {
    setPriority(5)
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {} // not on this system
}
