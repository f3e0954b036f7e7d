// Image renderers, test images, and a view of the render processes for tests of image rendering.
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { after } from 'node:test'
import sharp from 'sharp'
import { createLog } from '#src/kernel/log.ts'
import { createRenderer, type Rendered, type Renderer } from '#src/services/storage/render/renderer.ts'
import {
  type Format,
  type TransformationInput,
  transformationFrom,
} from '#src/services/storage/render/transformation.ts'
import { eventually } from './eventually.ts'

/** Renderers of one test file and the lines they log. A hook closes them after the tests. */
export function imageRenderers() {
  const lines: string[] = []
  const log = createLog('info', { write: line => void lines.push(line) })
  const opened: Renderer[] = []
  after(() => {
    for (const each of opened) each.close()
  })

  /** Long timeouts for busy machines, unless the test is about the timeout. */
  function newRenderer(options: Partial<Parameters<typeof createRenderer>[0]> = {}): Renderer {
    const made = createRenderer({ log, timeLimitMs: 60_000, ...options })
    opened.push(made)
    return made
  }

  return { lines, newRenderer }
}

/** A function that renders with the current renderer of a test file, unless it gets another one. */
export const renderWith =
  (current: () => Renderer) =>
  (
    source: Buffer,
    input: TransformationInput = {},
    format: Format = 'origin',
    by = current(),
    project = 'p',
  ): Promise<Rendered> =>
    by.render(project, async () => source, transformationFrom(input), format)

export const rejection = (message: RegExp, status = 400) => ({
  name: 'Refusal',
  code: status === 400 ? 'InvalidRequest' : 'SlowDown',
  status,
  message,
})
export const sizeOf = async ({ bytes }: Rendered) => {
  const { width, height } = await sharp(bytes).metadata()
  return `${width}x${height}`
}

/** Left half red, right half blue. */
export const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: 'red' } }).composite([
    {
      input: { create: { width: width / 2, height, channels: 3, background: 'blue' } },
      left: width / 2,
      top: 0,
    },
  ])

/** An image that takes seconds to encode. */
export function slowImage(): Promise<Buffer> {
  const [width, height, channels] = [3000, 3000, 3] as const
  return sharp(randomBytes(width * height * channels), { raw: { width, height, channels } })
    .jpeg()
    .toBuffer()
}

const statOf = (pid: string) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
const isRendering = (pid: string) =>
  readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('render/worker.ts') && statOf(pid)[0] !== 'Z'

/** The render processes of a process, from /proc. */
export function processesOf(parent = process.pid): number[] {
  const found = readdirSync('/proc').filter(name => {
    try {
      return /^\d+$/.test(name) && Number(statOf(name)[1]) === parent && isRendering(name)
    } catch {
      return false // the process ended meanwhile
    }
  })
  return found.map(Number)
}
export const cpuSeconds = (pid: number) =>
  statOf(String(pid))
    .slice(11, 13)
    .map(Number)
    .reduce((a, b) => a + b) / 100

export async function onlyProcess(): Promise<number> {
  await eventually(() => processesOf().length > 0, 'a process')
  return processesOf()[0]!
}
