// Every body type of the client, and the stored content type, metadata and cache control.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { bytesOf, done, folder, type Stage } from './storage-stage.ts'

const words = 'Grüße, 世界 🌍\r\n--not-a-boundary\0'
const bytes = Buffer.concat([Buffer.from(words), randomBytes(70_000)])
/** A copy, because a Buffer may be a view of a larger one. */
const arrayBuffer = () => new Uint8Array(bytes).buffer

interface Kind {
  body(): Parameters<Stage['files']['upload']>[1]
  contentType?: string
  holds?: Buffer
  isKeptAs: string
}

function form(fill: (form: FormData) => void): FormData {
  const made = new FormData()
  fill(made)
  return made
}

const kinds: Record<string, Kind> = {
  'a Blob': { body: () => new Blob([bytes], { type: 'image/png' }), isKeptAs: 'image/png' },
  'a Blob without a type': { body: () => new Blob([bytes]), isKeptAs: 'application/octet-stream' },
  'a File': {
    body: () => new File([bytes], 'a "quoted" näme.pdf', { type: 'application/pdf' }),
    isKeptAs: 'application/pdf',
  },
  'a FormData whose file has a name of its own': {
    body: () => form(it => it.append('picture', new File([bytes], 'p.gif', { type: 'image/gif' }))),
    isKeptAs: 'image/gif',
  },
  'a FormData that tells the type': {
    body: () =>
      form(it => {
        it.append('file', new Blob([bytes], { type: 'image/gif' }))
        it.append('contentType', 'image/webp')
      }),
    isKeptAs: 'image/webp',
  },
  'an ArrayBuffer': { body: arrayBuffer, contentType: 'application/zip', isKeptAs: 'application/zip' },
  'a view of one': {
    body: () => new Uint8Array(arrayBuffer(), 5, 1000),
    contentType: 'application/zip',
    holds: bytes.subarray(5, 1005),
    isKeptAs: 'application/zip',
  },
  'a Buffer': { body: () => bytes, contentType: 'video/mp4', isKeptAs: 'video/mp4' },
  'a Buffer without a type': { body: () => bytes, isKeptAs: 'text/plain;charset=UTF-8' },
  'a Buffer that says it is JSON and is none': {
    body: () => bytes,
    contentType: 'application/json',
    isKeptAs: 'application/json',
  },
  'a string': { body: () => words, holds: Buffer.from(words), isKeptAs: 'text/plain;charset=UTF-8' },
  'a string of JSON': {
    body: () => '{"__proto__": 1}',
    contentType: 'application/json',
    holds: Buffer.from('{"__proto__": 1}'),
    isKeptAs: 'application/json',
  },
  'a string that is a form': {
    body: () => 'a=1&b=%20',
    contentType: 'application/x-www-form-urlencoded',
    holds: Buffer.from('a=1&b=%20'),
    isKeptAs: 'application/x-www-form-urlencoded',
  },
  URLSearchParams: {
    body: () => new URLSearchParams({ q: 'a b' }),
    holds: Buffer.from('q=a+b'),
    isKeptAs: 'text/plain;charset=UTF-8',
  },
  'a stream of Node.js': {
    body: () => Readable.from([bytes.subarray(0, 10), bytes.subarray(10)]),
    contentType: 'audio/ogg',
    isKeptAs: 'audio/ogg',
  },
  'a stream of the web': {
    body: () => new Blob([bytes]).stream(),
    contentType: 'audio/ogg',
    isKeptAs: 'audio/ogg',
  },
  'an empty Blob': { body: () => new Blob([]), holds: Buffer.of(), isKeptAs: 'application/octet-stream' },
  'an empty string': { body: () => '', holds: Buffer.of(), isKeptAs: 'text/plain;charset=UTF-8' },
  'an empty stream': {
    body: () => Readable.from([]),
    contentType: 'audio/ogg',
    holds: Buffer.of(),
    isKeptAs: 'audio/ogg',
  },
}

export function bodyTests(stage: () => Stage): void {
  test('every body type is stored unchanged with its content type, and can replace a file', async () => {
    const { files } = stage()
    const at = folder()
    for (const [what, { body, contentType, holds = bytes, isKeptAs }] of Object.entries(kinds)) {
      const path = `${at}/${what.replaceAll('.', '')}`
      const options = contentType === undefined ? {} : { contentType }
      const made = done(await files.upload(path, body(), options))
      assert.deepEqual([made.path, made.fullPath], [path, `private/${path}`], what)
      assert.match(made.id, /^[0-9a-f-]{36}$/, what)
      const kept = async () => {
        const { size, contentType: type, cacheControl } = done(await files.info(path))
        const blob = done(await files.download(path))
        assert.ok((await bytesOf(blob)).equals(holds), `${what}: the bytes differ`)
        return [size, type, cacheControl]
      }
      assert.deepEqual(await kept(), [holds.length, isKeptAs, 'max-age=3600'], what)
      done(await files.update(path, 'something else'))
      const replaced = done(await files.update(path, body(), { ...options, cacheControl: '7' }))
      assert.equal(replaced.id, made.id, what)
      assert.deepEqual(await kept(), [holds.length, isKeptAs, 'max-age=7'], `${what}, by update`)
    }
  })

  test('cacheControl, metadata and headers are stored, with or without a form', async () => {
    const { files, fetch } = stage()
    const at = folder()
    const metadata = { camera: 'Ricoh', tags: ['a', 'ü'], nested: { deep: [1, null] } }
    const options = { cacheControl: '60', metadata, headers: { 'x-robots-tag': 'noindex, nofollow' } }
    for (const [path, body] of [
      [`${at}/form`, new Blob(['x'])],
      [`${at}/raw`, Buffer.from('x')],
    ] as const) {
      done(await files.upload(path, body, options))
      const info = done(await files.info(path))
      assert.deepEqual([info.metadata, info.cacheControl], [metadata, 'max-age=60'], path)
      const { headers } = await fetch('GET', `object/private/${path}`)
      assert.deepEqual(
        [headers.get('cache-control'), headers.get('x-robots-tag')],
        ['max-age=60', 'noindex, nofollow'],
        path,
      )
    }
    done(await files.upload(`${at}/plain`, 'x'))
    assert.deepEqual(done(await files.info(`${at}/plain`)).metadata, {})
  })

  test('fields of the form take precedence over options, and a cache-control header is stored', async () => {
    const { files } = stage()
    const at = folder()
    const own = form(it => {
      it.append('cacheControl', '5')
      it.append('metadata', JSON.stringify({ from: 'the form' }))
      it.append('', new Blob(['x'], { type: 'image/png' }))
    })
    done(await files.upload(`${at}/own`, own, { cacheControl: '9', metadata: { from: 'the options' } }))
    const info = done(await files.info(`${at}/own`))
    assert.deepEqual([info.cacheControl, info.metadata], ['max-age=5', { from: 'the form' }])
    done(await files.upload(`${at}/none`, Buffer.from('x'), { headers: { 'cache-control': 'no-store' } }))
    assert.equal(done(await files.info(`${at}/none`)).cacheControl, 'no-store')
  })

  test('upsert replaces bytes, type and metadata, and keeps id and creation time', async () => {
    const { files } = stage()
    const path = `${folder()}/twice`
    const made = done(await files.upload(path, 'first', { metadata: { a: 1 }, cacheControl: '1' }))
    const before = done(await files.info(path))
    const replaced = done(
      await files.upload(path, new Blob(['second one'], { type: 'image/png' }), { upsert: true }),
    )
    assert.equal(replaced.id, made.id)
    const after = done(await files.info(path))
    assert.deepEqual(
      [after.id, after.createdAt, after.size, after.contentType, after.metadata],
      [before.id, before.createdAt, 10, 'image/png', {}],
    )
    assert.notEqual(after.version, before.version)
    assert.notEqual(after.etag, before.etag)
    assert.equal(await done(await files.download(path)).text(), 'second one')
    const first = done(await files.upload(`${path}/new`, 'x', { upsert: true }))
    assert.equal(first.path, `${path}/new`)
  })

  test('a large body is stored completely, as a stream without a length and as a form', async () => {
    const { files } = stage()
    const at = folder()
    const large = randomBytes(20 * 1024 * 1024 + 1)
    const hash = createHash('sha256').update(large).digest('hex')
    const chunks = Array.from({ length: 330 }, (_, index) =>
      large.subarray(index * 65_000, (index + 1) * 65_000),
    )
    done(await files.upload(`${at}/stream`, Readable.from(chunks), { contentType: 'application/zip' }))
    done(await files.upload(`${at}/form`, new Blob([large])))
    for (const path of [`${at}/stream`, `${at}/form`]) {
      assert.equal(done(await files.info(path)).size, large.length)
      const stream = done(await files.download(path).asStream())
      const read = createHash('sha256')
      for await (const chunk of stream) read.update(chunk)
      assert.equal(read.digest('hex'), hash, path)
    }
  })

  test('the client normalizes slashes in a path, and all allowed characters are kept', async () => {
    const { files } = stage()
    const at = folder()
    assert.equal(done(await files.upload(`/${at}//a/`, 'x')).path, `${at}/a`)
    assert.equal(await done(await files.download(`/${at}/a`)).text(), 'x')
    const name = `A z09_!-.*'() &$=@;:+,.tar.gz`
    const path = `${at}/${name}/${name}`
    assert.equal(done(await files.upload(path, 'here')).fullPath, `private/${path}`)
    assert.equal(await done(await files.download(path)).text(), 'here')
    assert.equal(done(await files.info(path)).name, path)
    assert.deepEqual(
      done(await files.list(`${at}/${name}`)).map(each => each.name),
      [name],
    )
    assert.deepEqual(
      done(await files.remove([path])).map(each => each.name),
      [path],
    )
  })
}
