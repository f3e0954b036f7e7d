// Storage contract §2 and cases 16, 44: valid file names, and that no path spelling reaches another file.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique } from '../people.ts'
import { bodyOf } from '../service.ts'
import {
  assertRefused,
  assertStatus,
  type Caller,
  headersOf,
  objectPath,
  type StorageApi,
  storageProject,
  storageRoot,
  storageTarget,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { createUpload, requestUpload } from '../uploads.ts'
import { sendBytes } from '../wire.ts'

let it: Target
let storage: StorageApi
let open: string
let closed: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  open = await storage.bucket({ public: true, id: 'open' })
  closed = await storage.bucket({ id: 'closed' })
  await storage.store(open, 'a/photo.png', 'of the open bucket')
  await storage.store(closed, 'secret.png', 'a secret')
})
after(() => it.stop())

/** Sends the path unchanged. fetch would resolve the dots in it. */
function sendUnchanged(method: string, path: string, as: Caller = 'service_role', body = '') {
  const lines = Object.entries({
    host: 'x',
    ...headersOf(storage.project, as),
    'content-type': 'text/plain',
    'content-length': String(body.length),
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const start = `${method} ${storageRoot(storage.project)}/${path} HTTP/1.1\r\n`
  return sendBytes(it.url, Buffer.from(`${start}${lines.join('')}\r\n${body}`, 'latin1'))
}

for (const key of [
  'plain.txt',
  "all_!-.*'() &$=@;:+,?.txt",
  'deep/er/and/deep/er/still.txt',
  'a..b/c...d.txt',
  '.hidden',
  '...',
  'dot.',
  'dots..',
  ' space ',
  'con',
  '-rf',
  '$(x)',
  "it's;drop table x",
  '__proto__',
  'constructor/prototype',
  'list/public/sign',
  'move',
  'x'.repeat(900),
])
  test(`contract §2 a file can be named ${JSON.stringify(key.slice(0, 40))}`, async () => {
    const own = await storage.bucket({ public: true })
    const reply = await storage.upload(own, key, key)
    assert.equal(bodyOf(reply).Key, `${own}/${key}`)
    assert.deepEqual(await storage.keys(own), [key])
    assert.equal((await storage.read(own, key)).toString(), key)
    assert.equal((await storage.info(own, key)).name, key)
    const path = objectPath(own, key, 'object/public')
    assert.equal((await storage.get(path, { as: 'nobody' })).text, key)
    assertStatus(await storage.head(objectPath(own, key)), 200)
    bodyOf(await storage.post('object/copy', { bucketId: own, sourceKey: key, destinationKey: 'copy' }))
    bodyOf(await storage.delete(objectPath(own, key)))
    bodyOf(await storage.post('object/move', { bucketId: own, sourceKey: 'copy', destinationKey: key }))
    const removed = bodyOf(await storage.delete(`object/${own}`, { prefixes: [key] }))
    assert.equal(removed.length, 1)
    const upload = await createUpload(storage, { bucket: own, key, length: 1 })
    assertStatus(await upload.append(0, Buffer.from('x')), 204)
    assert.deepEqual(await storage.keys(own), [key])
  })

const others = [
  '#',
  '%',
  '"',
  '<',
  '>',
  '[',
  ']',
  '{',
  '}',
  '|',
  '^',
  '`',
  '~',
  '\\',
  '\x01',
  '\x7f',
  '\n',
  '\t',
  '\0',
]
const letters = [
  'ü',
  'é',
  'ａ',
  '．',
  '／',
  '∕',
  '⁄',
  '\u2024',
  '\u200b',
  '\u202e',
  '\u00a0',
  '😀',
  '\ufffd',
  '\ufeff',
]
test('contract §2 every other character in a key returns 400 InvalidKey, on every route', async () => {
  for (const character of [...others, ...letters]) {
    const key = `a${character}b`
    const path = encodeURIComponent(key)
    assertRefused(await storage.ask('POST', `object/${open}/${path}`, { raw: 'x' }), 400, 'InvalidKey')
    assertRefused(await storage.ask('PUT', `object/${open}/${path}`, { raw: 'x' }), 400, 'InvalidKey')
    assertRefused(await storage.post(`object/upload/sign/${open}/${path}`, {}), 400, 'InvalidKey')
    const carry = { bucketId: open, sourceKey: 'a/photo.png', destinationKey: key }
    assertRefused(await storage.post('object/copy', carry), 400, 'InvalidKey')
    assertRefused(await storage.post('object/move', carry), 400, 'InvalidKey')
    assertRefused(await requestUpload(storage, { bucket: open, key, length: 1 }), 400, 'InvalidKey')
    const reading = await storage.get(`object/${open}/${path}`)
    assert.ok([400, 404].includes(reading.status), `${reading.status}`)
  }
  assert.deepEqual(await storage.keys(open), ['a/photo.png'])
})

for (const [what, path] of Object.entries({
  'an empty segment': 'a//b',
  'an empty segment at the start': '/a',
  'an encoded empty segment': 'a%2f%2fb',
  'a slash at the end': 'a/',
  'an encoded slash at the end': 'a%2f',
  'a dot': 'a/./b',
  'an encoded dot': 'a/%2e/b',
  'two dots': 'a/../b',
  'encoded dots': 'a/%2e%2e/b',
  'partly encoded dots': 'a/.%2E/b',
  'dots and an encoded slash': 'a/..%2fb',
  'an encoded path': 'a%2f%2e%2e%2fb',
  'dots at the start': '../b',
  'dots at the end': 'a/..',
  'double encoding': 'a/%252e%252e%252fb',
  'a backslash': 'a%5c..%5cb',
  'a NUL': 'a%00b',
  'a line feed': 'a%0d%0ab',
  'overlong dots': 'a/%c0%ae%c0%ae/b',
  'invalid UTF-8': 'a%ff',
  'a lone percent sign': 'a%',
  'an invalid escape': 'a%zz',
  'more than 1024 characters': 'x'.repeat(1100),
  'more than 1024 characters in segments': `${'y/'.repeat(600)}z`,
}))
  test(`case 16: an upload to a path with ${what} returns 4xx and stores nothing`, async () => {
    const own = await storage.bucket()
    for (const method of ['POST', 'PUT']) {
      const reply = await sendUnchanged(method, `object/${own}/${path}`, 'service_role', 'bad')
      assert.ok(reply.status >= 400 && reply.status < 500, `${method} ${path}: ${reply.status} ${reply.text}`)
    }
    assert.deepEqual(await storage.keys(own), [])
    assert.deepEqual(await storage.keys(closed), ['secret.png'])
  })

const ways = [
  'object/public/open',
  'object/open',
  'object/info/public/open',
  'object/info/open',
  'render/image/public/open',
  'object/authenticated/open',
  'render/image/authenticated/open',
]
const tricks = [
  '../closed/secret.png',
  '..%2fclosed%2fsecret.png',
  '..%2Fclosed/secret.png',
  '%2e%2e/closed/secret.png',
  '%2e%2e%2fclosed%2fsecret.png',
  '.%2e/closed/secret.png',
  '%252e%252e%252fclosed%252fsecret.png',
  '..%252fclosed%252fsecret.png',
  '..%5cclosed%5csecret.png',
  '..\\closed\\secret.png',
  'a/../../closed/secret.png',
  '%c0%ae%c0%ae/closed/secret.png',
  '..%00/closed/secret.png',
  '%EF%BC%8E%EF%BC%8E%EF%BC%8Fclosed%EF%BC%8Fsecret.png',
  '..;/closed/secret.png',
  './../closed/secret.png',
  '../../../../../../../../etc/passwd',
  '..%2f..%2f..%2f..%2fetc%2fpasswd',
  '/etc/passwd',
  'file:///etc/passwd',
]
for (const trick of tricks)
  test(`case 16: ${trick} does not escape the bucket`, async () => {
    for (const way of ways)
      for (const as of ['nobody', 'anon'] as const) {
        const reply = await sendUnchanged('GET', `${way}/${trick}`, as)
        assert.ok(reply.status >= 400 && reply.status < 500, `${way}: ${reply.status} ${reply.text}`)
        assert.ok(!reply.text.includes('a secret') && !reply.text.includes('root:'), reply.text)
      }
  })

test('case 16: a path that only resembles the name of a file does not reach the file', async () => {
  for (const path of [
    'a/photo.png.',
    'a/photo.png/',
    'a/photo.png%20',
    'a/photo.png..',
    'a/photo.png%00',
    'a/photo.png%2f',
    'a/photo.png%00.txt',
    'A/photo.png',
    'a/Photo.png',
    'a/photo.PNG',
    'a/ph%D0%BEto.png',
    'a/photo%2Epng%20',
    'a/photo.png::$DATA',
    'a%2fphoto.pn',
  ])
    for (const way of ['object/public', 'object', 'render/image/public', 'object/info/public']) {
      const reply = await sendUnchanged('GET', `${way}/${open}/${path}`, 'anon')
      assert.ok(reply.status >= 400 && reply.status < 500, `${way} ${path}: ${reply.status} ${reply.text}`)
      assert.ok(!reply.text.includes('of the open bucket'))
    }
})

test('case 16: names that differ in case or by a dot are different files', async () => {
  const own = await storage.bucket()
  const keys = ['A.txt', 'a.txt', 'a.txt.', 'a.txt..', 'a.txt ', 'a.TXT']
  for (const key of keys) await storage.store(own, key, key)
  for (const key of keys) assert.equal((await storage.read(own, key)).toString(), key)
  assert.deepEqual((await storage.keys(own)).sort(), keys.sort())
})

test('case 16: a bucket name of dots or with a slash is rejected', async () => {
  for (const id of [
    '..',
    '.',
    '%2e%2e',
    '..%2f..',
    '%2e%2e%2fclosed',
    'open%2f..%2fclosed',
    '%252e%252e',
    'closed%00',
  ])
    for (const [method, path] of [
      ['GET', `bucket/${id}`],
      ['GET', `object/public/${id}/secret.png`],
      ['GET', `object/${id}/secret.png`],
      ['POST', `object/list/${id}`],
    ] as const) {
      const reply = await sendUnchanged(method, path, 'anon')
      assert.ok(reply.status < 500, `${method} ${path}: ${reply.status} ${reply.text}`)
      assert.ok(!reply.text.includes('secret.png') || reply.status >= 400, reply.text)
      assert.ok(!reply.text.includes('a secret'))
    }
  for (const id of ['..', '.', '%2e%2e', '%252e%252e', 'a%00']) {
    const reply = await sendUnchanged('PUT', `object/${id}/x`, 'service_role', 'bad')
    assert.ok(reply.status >= 400 && reply.status < 500, `${id}: ${reply.status}`)
  }
})

test('case 16: listing a prefix with dots returns an empty list or an error', async () => {
  for (const prefix of ['..', '../closed', 'a/..', './a', '/', '//', 'a\0', '..\\'])
    for (const route of ['list', 'list-v2']) {
      const reply = await storage.post(`object/${route}/${open}`, { prefix })
      assert.ok([200, 400].includes(reply.status), `${reply.status} ${reply.text}`)
      assert.ok(!reply.text.includes('.png'), `${JSON.stringify(prefix)} ${reply.text}`)
    }
})

test('contract §2 an invalid or unknown source key of copy, move and delete finds nothing', async () => {
  for (const sourceKey of ['../closed/secret.png', 'ü', 'a\0', unique('none')]) {
    const carry = { bucketId: open, sourceKey, destinationKey: unique('x') }
    for (const operation of ['object/copy', 'object/move']) {
      const reply = await storage.post(operation, carry)
      assert.ok([400, 404].includes(reply.status), `${reply.status} ${reply.text}`)
    }
    const reply = await storage.delete(`object/${open}`, { prefixes: [sourceKey] })
    assert.ok([200, 400].includes(reply.status), `${reply.status} ${reply.text}`)
    if (reply.status === 200) assert.deepEqual(reply.body, [])
  }
})
