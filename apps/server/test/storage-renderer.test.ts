// Images rendered by a process of their own: what comes out, and what harm an image can do.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { createLog } from '#src/kernel/log.ts'
import {
  createRenderer,
  maxSourceBytes,
  type Rendered,
  type Renderer,
} from '#src/services/storage/render/renderer.ts'
import { type Format, transformationFrom, type Wish } from '#src/services/storage/render/transformation.ts'

const lines: string[] = []
const log = createLog('info', { write: line => void lines.push(line) })
const opened: Renderer[] = []
/** With time for a busy machine, unless the time is what a test is about. */
function newRenderer(options: Partial<Parameters<typeof createRenderer>[0]> = {}): Renderer {
  const made = createRenderer({ log, timeLimitMs: 60_000, ...options })
  opened.push(made)
  return made
}

let renderer: Renderer
/** Takes seconds when all of it is encoded. */
let slow: Buffer
before(async () => {
  renderer = newRenderer()
  const [width, height, channels] = [3000, 3000, 3] as const
  slow = await sharp(randomBytes(width * height * channels), { raw: { width, height, channels } })
    .jpeg()
    .toBuffer()
})
after(() => {
  for (const each of opened) each.close()
})

const render = (source: Buffer, wish: Wish = {}, format: Format = 'origin', by = renderer, project = 'p') =>
  by.render(project, async () => source, transformationFrom(wish), format)
const refusal = (message: RegExp, status = 400) => ({
  name: 'Refusal',
  code: status === 400 ? 'InvalidRequest' : 'SlowDown',
  status,
  message,
})
const sizeOf = async ({ bytes }: Rendered) => {
  const { width, height } = await sharp(bytes).metadata()
  return `${width}x${height}`
}

/** Left half red, right half blue. */
const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: 'red' } }).composite([
    {
      input: { create: { width: width / 2, height, channels: 3, background: 'blue' } },
      left: width / 2,
      top: 0,
    },
  ])

/** The processes of our renderers, by asking Linux. */
const statOf = (pid: string) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
const isRendering = (pid: string) =>
  readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('render/worker.ts') && statOf(pid)[0] !== 'Z'
function processesOf(parent = process.pid): number[] {
  const found = readdirSync('/proc').filter(name => {
    try {
      return /^\d+$/.test(name) && Number(statOf(name)[1]) === parent && isRendering(name)
    } catch {
      return false // ended while we looked
    }
  })
  return found.map(Number)
}
const cpuSeconds = (pid: number) =>
  statOf(String(pid))
    .slice(11, 13)
    .map(Number)
    .reduce((a, b) => a + b) / 100

async function until(what: string, isSo: () => boolean, seconds = 20): Promise<void> {
  for (const end = Date.now() + seconds * 1000; !isSo(); await sleep(5))
    assert.ok(Date.now() < end, `${what} within ${seconds} s`)
}
async function onlyProcess(isNot?: number): Promise<number> {
  const others = () => processesOf().filter(pid => pid !== isNot)
  await until('a process', () => others().length > 0)
  return others()[0]!
}

test('each way of resizing gives the size it promises', async () => {
  const source = await picture(400, 200).jpeg().toBuffer()
  const sizes: [Wish, string][] = [
    [{}, '400x200'],
    [{ width: 100 }, '100x50'],
    [{ height: 50 }, '100x50'],
    [{ width: 100, resize: 'fill' }, '100x50'],
    [{ width: 100, height: 100 }, '100x100'],
    [{ width: 100, height: 100, resize: 'contain' }, '100x50'],
    [{ width: 100, height: 100, resize: 'fill' }, '100x100'],
    // Beyond its own size.
    [{ width: 500, height: 500 }, '500x500'],
    [{ width: 500, height: 500, resize: 'fill' }, '500x500'],
    [{ width: 500, height: 500, resize: 'contain' }, '400x200'],
    [{ width: 1000 }, '400x200'],
    [{ width: 99_999, height: 1 }, '2000x1'],
  ]
  for (const [wish, size] of sizes)
    assert.equal(await sizeOf(await render(source, wish)), size, JSON.stringify(wish))
})

test('cover crops what projects, fill squeezes it in', async () => {
  const source = await picture(400, 100).png().toBuffer()
  const leftmost = async (wish: Wish) => {
    const { bytes } = await render(source, { width: 100, height: 100, ...wish })
    return [...(await sharp(bytes).removeAlpha().raw().toBuffer()).subarray(0, 3)]
  }
  assert.deepEqual(await leftmost({ resize: 'cover' }), [255, 0, 0])
  const { bytes } = await render(source, { width: 40, height: 40, resize: 'fill' })
  const middle = await sharp(bytes).extract({ left: 22, top: 0, width: 1, height: 1 }).raw().toBuffer()
  assert.ok(middle[2]! > 200)
})

const magic: Record<string, (bytes: Buffer) => boolean> = {
  'image/jpeg': bytes => bytes.toString('hex', 0, 3) === 'ffd8ff',
  'image/png': bytes => bytes.toString('latin1', 1, 4) === 'PNG',
  'image/webp': bytes => bytes.toString('latin1', 8, 12) === 'WEBP',
  'image/gif': bytes => bytes.toString('latin1', 0, 6) === 'GIF89a',
  'image/avif': bytes => bytes.toString('latin1', 4, 12) === 'ftypavif',
}

test('every kind of image becomes WebP or AVIF, or stays what it is', async () => {
  const kept = { jpeg: 'jpeg', png: 'png', webp: 'webp', gif: 'gif', avif: 'avif', tiff: 'jpeg' } as const
  for (const [kind, own] of Object.entries(kept)) {
    const source = await picture(64, 32)
      .toFormat(kind as keyof typeof kept)
      .toBuffer()
    for (const [format, type] of [
      ['webp', 'image/webp'],
      ['avif', 'image/avif'],
      ['origin', `image/${own}`],
    ] as const) {
      const rendered = await render(source, { width: 32 }, format)
      assert.equal(rendered.contentType, type, `${kind} as ${format}`)
      assert.ok(magic[type]!(rendered.bytes), `${kind} as ${format}`)
      assert.equal(await sizeOf(rendered), '32x16')
    }
  }
})

test('a transparent TIFF becomes a PNG, which keeps it so', async () => {
  const source = await picture(64, 32).ensureAlpha(0.5).tiff({ compression: 'lzw' }).toBuffer()
  assert.equal((await render(source)).contentType, 'image/png')
})

test('of a moving image the first frame is shown', async () => {
  const frames = await Promise.all(
    ['red', 'lime'].map(background =>
      sharp({ create: { width: 20, height: 20, channels: 3, background } })
        .png()
        .toBuffer(),
    ),
  )
  const source = await sharp(frames, { join: { animated: true } })
    .gif()
    .toBuffer()
  assert.equal((await sharp(source).metadata()).pages, 2)
  const { bytes } = await render(source, {}, 'webp')
  assert.equal((await sharp(bytes).metadata()).pages ?? 1, 1)
  const [red, green] = await sharp(bytes).removeAlpha().raw().toBuffer()
  assert.ok(red! > 240 && green! < 10)
})

test('a lower quality takes fewer bytes', async () => {
  for (const format of ['origin', 'webp', 'avif'] as const) {
    const [low, high] = await Promise.all(
      [20, 100].map(quality => render(slow, { width: 300, quality }, format)),
    )
    assert.ok(low!.bytes.length * 2 < high!.bytes.length, format)
  }
})

test('a photograph is turned upright and tells nothing of where it was taken', async () => {
  const source = await picture(40, 20)
    .jpeg()
    .withExif({ IFD0: { Copyright: 'somebody', Orientation: '6' }, IFD3: { GPSLatitudeRef: 'N' } })
    .withMetadata({ orientation: 6 })
    .toBuffer()
  assert.equal((await sharp(source).metadata()).orientation, 6)
  const rendered = await render(source)
  const { width, height, orientation, exif } = await sharp(rendered.bytes).metadata()
  assert.deepEqual(
    { width, height, orientation, exif },
    { width: 20, height: 40, orientation: undefined, exif: undefined },
  )
  // The turn comes before the size.
  assert.equal(await sizeOf(await render(source, { width: 10 })), '10x20')
})

function png(width: number, height: number, data: Buffer): Buffer {
  const chunk = (type: string, content: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), content])
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(content.length)
    sum.writeUInt32BE(crc32(body))
    return Buffer.concat([length, body, sum])
  }
  const head = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0])
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', head),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

test('an image bomb is refused by its header, within a second of work, and the platform goes on', async () => {
  await render(await picture(8, 8).png().toBuffer())
  const pid = await onlyProcess()
  const before = cpuSeconds(pid)
  // 7.5 GB of one colour in 7 MB would be the whole; a part is enough to begin.
  const bombs = [
    png(50_000, 50_000, deflateSync(Buffer.alloc(150_001 * 200))),
    Buffer.from(
      `${Buffer.from('GIF89a').toString('hex')}ffffffff800000000000ffffff2c00000000ffffffff00020101003b`,
      'hex',
    ),
    await picture(8, 8).jpeg().toBuffer().then(withJpegSize(65_000, 65_000)),
  ]
  for (const bomb of bombs)
    await assert.rejects(render(bomb, { width: 100 }), refusal(/more than 50 megapixels/))
  assert.ok(cpuSeconds(pid) - before < 1, `${cpuSeconds(pid) - before} s`)
  assert.deepEqual(processesOf(), [pid])
})

/** Another size in the frame header (SOF0). */
const withJpegSize = (width: number, height: number) => (jpeg: Buffer) => {
  const at = jpeg.indexOf(Buffer.from('ffc0', 'hex'))
  jpeg.writeUInt16BE(height, at + 5)
  jpeg.writeUInt16BE(width, at + 7)
  return jpeg
}

test('what is no image, or a program that draws one, is refused', async () => {
  const svg =
    '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><rect width="5" height="5"/></svg>'
  const notImages = {
    svg,
    'svg behind a declaration': `<?xml version="1.0"?>\n<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>${svg}`,
    pdf: '%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>',
    postscript: '%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9',
    magick: "push graphic-context\nviewbox 0 0 9 9\nfill 'url(https://127.0.0.1/)'",
    ppm: 'P6\n2 2\n255\n0123456789AB',
    vips: `${String.fromCharCode(8, 0xf2, 0xa6, 0xb6)}${'\0'.repeat(100)}`,
    csv: '1,2,3\n4,5,6\n',
    matrix: '2 2\n1 2\n3 4\n',
    html: '<html><script>alert(1)</script></html>',
  }
  for (const [what, text] of Object.entries(notImages))
    await assert.rejects(render(Buffer.from(text, 'latin1')), refusal(/not an image/), what)
  for (const size of [0, 1, 100, 100_000])
    await assert.rejects(render(randomBytes(size)), refusal(/not an image/), `${size} random bytes`)
})

test('an image that is damaged or cut short is refused', async () => {
  for (const kind of ['jpeg', 'png', 'webp', 'gif', 'avif', 'tiff'] as const) {
    const whole = await sharp(slow).resize(300, 300).toFormat(kind).toBuffer()
    await assert.rejects(
      render(whole.subarray(0, whole.length / 2), { width: 100 }),
      refusal(/damaged or cut short|not an image/),
      kind,
    )
    await assert.rejects(
      render(Buffer.concat([whole.subarray(0, 32), randomBytes(2000)]), { width: 100 }),
      refusal(/damaged|not an image|megapixels/),
      kind,
    )
  }
})

test('ten thousand bits flipped at random never end in anything but an image or a refusal', async () => {
  const sources = await Promise.all(
    (['jpeg', 'png', 'webp', 'gif', 'avif', 'tiff'] as const).map(kind =>
      picture(40, 40).toFormat(kind).toBuffer(),
    ),
  )
  const outcomes = { images: 0, refusals: 0 }
  for (let round = 0; round < 300; round++) {
    const bytes = Buffer.from(sources[round % sources.length]!)
    for (let flip = 0; flip < 33; flip++) {
      const [a, b, c] = randomBytes(3)
      bytes[((a! << 8) | b!) % bytes.length]! ^= 1 << (c! % 8)
    }
    const rendered = await render(bytes, { width: 20 }).catch((error: { status?: number }) => error)
    if ('bytes' in rendered) outcomes.images++
    else {
      assert.equal(rendered.status, 400, String(rendered))
      outcomes.refusals++
    }
  }
  assert.ok(outcomes.refusals > 0, JSON.stringify(outcomes))
})

test('a page hidden in an image does not come out of it', async () => {
  const script = '<html><script>alert(document.domain)</script></html>'
  const gif = await picture(20, 20).gif().toBuffer()
  const sources = [
    Buffer.concat([gif, Buffer.from(script)]),
    await picture(20, 20)
      .jpeg()
      .withXmp(`<x:xmpmeta xmlns:x="adobe:ns:meta/">${script}</x:xmpmeta>`)
      .toBuffer(),
    await picture(20, 20)
      .png()
      .withExif({ IFD0: { ImageDescription: script } })
      .toBuffer(),
  ]
  for (const source of sources) {
    assert.ok(source.includes('<script>'))
    const { bytes, contentType } = await render(source)
    assert.ok(!bytes.includes('<script>'))
    assert.ok(magic[contentType]!(bytes))
  }
  await assert.rejects(render(Buffer.from(`GIF89a/*${script}*/`)), refusal(/damaged|not an image|megapixels/))
})

test('a source beyond the limit is refused', async () => {
  const tooLarge = Buffer.concat([await picture(8, 8).jpeg().toBuffer(), Buffer.alloc(maxSourceBytes)])
  await assert.rejects(render(tooLarge), refusal(/more than 25 MB/))
})

test('a large image is held in memory, never in a file that others could read', async () => {
  const source = await sharp({ create: { width: 7000, height: 5500, channels: 3, background: 'red' } })
    .webp({ effort: 0 })
    .toBuffer()
  const patient = newRenderer({ timeLimitMs: 60_000 })
  assert.equal(await sizeOf(await render(source, {}, 'webp', patient)), '7000x5500')
  patient.close()
})

test('an image that takes too long is refused at its time, and the next is rendered', async () => {
  const impatient = newRenderer({ timeLimitMs: 800 })
  const small = await picture(8, 8).png().toBuffer()
  await render(small, {}, 'origin', impatient)
  const begun = performance.now()
  await assert.rejects(render(slow, { quality: 100 }, 'avif', impatient), refusal(/takes too long/))
  assert.ok(performance.now() - begun < 15_000)
  assert.equal(await sizeOf(await render(small, {}, 'origin', impatient)), '8x8')
  impatient.close()
})

test('an image that takes too much memory is refused, and the next is rendered', async () => {
  const poor = newRenderer({ memoryBytes: 150 * 1024 * 1024 })
  const large = await sharp({ create: { width: 7000, height: 5500, channels: 3, background: 'red' } })
    .webp({ effort: 0 })
    .toBuffer()
  await assert.rejects(render(large, {}, 'webp', poor), refusal(/too much memory/))
  assert.equal(await sizeOf(await render(await picture(8, 8).png().toBuffer(), {}, 'origin', poor)), '8x8')
  poor.close()
})

test('a process that is killed in the middle is replaced, and the image rendered after all', async () => {
  renderer.close()
  renderer = newRenderer()
  await until('none', () => processesOf().length === 0)
  const asked = render(slow, {}, 'webp')
  const pid = await onlyProcess()
  await until('work', () => cpuSeconds(pid) > 0.4)
  const said = lines.length
  process.kill(pid, 'SIGKILL')
  assert.equal(await sizeOf(await asked), '3000x3000')
  assert.match(lines.slice(said).join(''), /SIGKILL/)
})

test('an image that always ends its process is refused, and the next is rendered', async () => {
  renderer.close()
  renderer = newRenderer()
  await until('none', () => processesOf().length === 0)
  await render(await picture(8, 8).png().toBuffer())
  // One that is ended while it starts would count as a fault of the platform, not of the image.
  const startSeconds = cpuSeconds(await onlyProcess())
  let isAnswered = false
  const asked = render(slow, {}, 'webp').finally(() => {
    isAnswered = true
  })
  asked.catch(() => {})
  while (!isAnswered) {
    for (const pid of processesOf())
      if (cpuSeconds(pid) > 2 * startSeconds + 0.3) process.kill(pid, 'SIGKILL')
    await sleep(5)
  }
  await assert.rejects(asked, refusal(/cannot be rendered/))
  assert.equal(await sizeOf(await render(await picture(8, 8).png().toBuffer())), '8x8')
})

test('without work the process ends, and comes again with work', async () => {
  const lazy = newRenderer({ idleMs: 50 })
  renderer.close()
  renderer = newRenderer()
  const source = await picture(8, 8).png().toBuffer()
  await until('none', () => processesOf().length === 0)
  for (let round = 0; round < 2; round++) {
    const said = lines.length
    assert.equal(await sizeOf(await render(source, {}, 'origin', lazy)), '8x8')
    await until('an end', () => processesOf().length === 0)
    assert.equal(lines.length, said)
  }
  lazy.close()
})

test('one process serves one image after another, and no signal meant for the platform ends it', async () => {
  const source = await picture(8, 8).png().toBuffer()
  await render(source)
  const pid = await onlyProcess()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.kill(pid, signal)
    await render(source)
    assert.deepEqual(processesOf(), [pid])
  }
})

test('the process has nothing of ours: no environment, no open file', async () => {
  process.env['PLATFORM_SECRET_FOR_TEST'] = 'hunter2'
  const file = openSync(join(import.meta.dirname, 'storage-renderer.test.ts'), 'r')
  renderer.close()
  renderer = newRenderer()
  await render(await picture(8, 8).png().toBuffer())
  const pid = await onlyProcess()
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
  assert.deepEqual(environment.map(entry => entry.split('=')[0]).sort(), [
    'MALLOC_ARENA_MAX',
    'NODE_CHANNEL_FD',
    'NODE_CHANNEL_SERIALIZATION_MODE',
    'TMPDIR',
    'TZ',
    'VIPS_DISC_THRESHOLD',
  ])
  const files = readdirSync(`/proc/${pid}/fd`).map(name => readlinkSync(`/proc/${pid}/fd/${name}`))
  assert.ok(!files.some(name => name.includes('storage-renderer')), files.join(' '))
  assert.equal(readlinkSync(`/proc/${pid}/cwd`), '/')
  closeSync(file)
  delete process.env['PLATFORM_SECRET_FOR_TEST']
})

/** Another process, as the platform is one, that renders until it is killed. */
function startOther(): ChildProcess {
  const folder = join(import.meta.dirname, '../src')
  const program = `
    const { createRenderer } = await import(${JSON.stringify(`${folder}/services/storage/render/renderer.ts`)})
    const { createLog } = await import(${JSON.stringify(`${folder}/kernel/log.ts`)})
    const source = await new Response(process.stdin).bytes()
    const renderer = createRenderer({ log: createLog('silent') })
    const wanted = { resize: 'cover', quality: 80 }
    await renderer.render('p', async () => Buffer.from(source), wanted, 'webp')`
  const args = ['--input-type=module', '-e', program]
  const other = spawn(process.execPath, args, { stdio: ['pipe', 'inherit', 'inherit'] })
  other.stdin!.end(slow)
  return other
}

test('a platform that is killed takes the process along, even in the middle of an image', async () => {
  const other = startOther()
  await until('a process', () => processesOf(other.pid).length > 0)
  const [pid] = processesOf(other.pid)
  await until('work', () => cpuSeconds(pid!) > 0.4)
  other.kill('SIGKILL')
  await until('its end', () => !existsSync(`/proc/${pid}`), 15)
})

test('a platform with nothing else to do can end while the process waits for work', async () => {
  const other = startOther()
  await until('its end', () => other.exitCode !== null)
  assert.equal(other.exitCode, 0)
})

test('two images at a time, one of a project, and sources are read when it is their turn', async () => {
  const source = await sharp(slow).resize(800).jpeg().toBuffer()
  let underWay = 0
  let most = 0
  const busy = new Set<string>()
  const one = (project: string) =>
    renderer.render(
      project,
      async () => {
        assert.ok(!busy.has(project))
        busy.add(project)
        most = Math.max(most, ++underWay)
        await sleep(5)
        underWay--
        busy.delete(project)
        return source
      },
      transformationFrom({}),
      'webp',
    )
  await Promise.all(['a', 'a', 'a', 'b', 'b', 'c', 'c', 'd'].map(one))
  assert.ok(most <= 2, `${most} at a time`)
  assert.equal(processesOf().length, 2)
})

test('a project that asks for much waits for itself, and is told so beyond 64', async () => {
  const source = await sharp(slow).resize(500).jpeg().toBuffer()
  const order: string[] = []
  const ask = (project: string) =>
    render(source, {}, 'webp', renderer, project).then(
      () => void order.push(project),
      (error: unknown) => error,
    )
  const answers = Array.from({ length: 70 }, () => ask('greedy'))
  await ask('modest')
  // Behind all of them it would be the 66th; its process may have to be started.
  assert.ok(order.indexOf('modest') < 32, order.join(' '))
  const refused = (await Promise.all(answers)).filter(answer => answer !== undefined)
  // On a slow machine some of those that wait give up as well.
  assert.ok(refused.length >= 5, `${refused.length} were refused`)
  const [{ status, code, headers }] = refused as [{ status: number; code: string; headers: object }]
  assert.deepEqual(
    { status, code, headers },
    { status: 429, code: 'SlowDown', headers: { 'retry-after': '1' } },
  )
})

test('a store of files that hangs holds no place for long', async () => {
  const impatient = newRenderer({ timeLimitMs: 300 })
  const hangs = impatient.render('a', () => new Promise(() => {}), transformationFrom({}), 'origin')
  await assert.rejects(hangs, refusal(/cannot be read at the moment/, 503))
  const broken = impatient.render(
    'a',
    () => Promise.reject(new Error('gone')),
    transformationFrom({}),
    'origin',
  )
  await assert.rejects(broken, { message: 'gone' })
  assert.ok(await render(await picture(8, 8).png().toBuffer(), {}, 'origin', impatient))
  impatient.close()
})

test('rendering large files takes no lasting memory of the platform', async () => {
  const source = Buffer.concat([await picture(400, 400).jpeg().toBuffer(), randomBytes(20 * 1024 * 1024)])
  const round = async (times: number) => {
    for (let at = 0; at < times; at++) await render(source, { width: 100 })
    return process.memoryUsage.rss()
  }
  const before = await round(10)
  const grown = (await round(40)) - before
  assert.ok(grown < 60 * 1024 * 1024, `${Math.round(grown / 1024 / 1024)} MB more`)
})

test('closed, it has no process left and refuses', async () => {
  const closing = newRenderer()
  const asked = render(slow, {}, 'webp', closing)
  asked.catch(() => {})
  const known = processesOf()
  await until('its process', () => processesOf().some(pid => !known.includes(pid)))
  closing.close()
  await assert.rejects(asked, refusal(/at the moment/, 503))
  await assert.rejects(render(slow, {}, 'webp', closing), refusal(/at the moment/, 503))
  renderer.close()
  await until('none', () => processesOf().length === 0)
})
