// 1 §4.6.4, storage contract §5 and case 17: URLs that give temporary access to exactly one file.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { jwt, nowSeconds, unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import {
  ada,
  assertOneOf,
  assertRefused,
  assertStatus,
  claimsOf,
  encodeKey,
  objectPath,
  type StorageApi,
  storageProject,
  storageRoot,
  storageTarget,
  tokenIn,
  upsert,
} from '../storage.ts'
import type { Target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let storage: StorageApi
let bucket: string
before(async () => {
  it = await storageTarget()
  storage = await storageProject(it)
  bucket = await storage.bucket()
  await storage.store(bucket, 'folder/a.txt', 'content')
  await storage.store(bucket, 'other.txt', 'other')
})
after(() => it.stop())

const path = 'folder/a.txt'
const signing = (key = path, body: unknown = { expiresIn: 60 }, of = bucket) =>
  storage.post(objectPath(of, key, 'object/sign'), body)
const sign = async (key = path, body?: unknown, of = bucket): Promise<string> =>
  bodyOf(await signing(key, body, of)).signedURL
/** Requests the URL without headers, as a browser does. */
const open = (url: string, shape: 'native' | 'alias' = 'native') =>
  it.call('GET', storageRoot(storage.project, shape) + url)
const at = (key: string, token: string, of = bucket) =>
  `/object/sign/${of}/${encodeKey(key)}?token=${encodeURIComponent(token)}`

for (const shape of shapes)
  test(`contract §1 a signed URL is relative to the base and needs no headers, on the ${shape} path`, async () => {
    const { signedURL: url } = bodyOf(
      await storage.post(objectPath(bucket, path, 'object/sign'), { expiresIn: 60 }, { shape }),
    )
    assert.ok(url.startsWith(`/object/sign/${bucket}/${path}?token=`), url)
    for (const opened of shapes) assert.equal((await open(url, opened)).text, 'content')
    assert.equal((await open(`${url}&cacheNonce=1`)).text, 'content')
  })

test('1 §4.6 the body may name the duration expires_in, contract §1 expiresIn', async () => {
  for (const body of [{ expires_in: 60 }, { expiresIn: 60 }]) {
    const { iat, exp } = claimsOf(tokenIn(await sign(path, body)))
    assert.equal(exp - iat, 60)
    assert.ok(Math.abs(iat - nowSeconds()) <= 30)
  }
})

test('contract §5 a token contains the file, its use and its expiry', async () => {
  const token = tokenIn(await sign())
  assert.match(token, /^[\w-]+\.[\w-]+\.[\w-]+$/)
  const { iat: _, exp: __, ...claims } = claimsOf(token)
  assert.deepEqual(claims, { url: `${bucket}/${path}`, scope: 'download' })
})

test('contract §7 an invalid duration returns 400', async () => {
  for (const body of [
    {},
    { expiresIn: 0 },
    { expiresIn: -1 },
    { expiresIn: 1.5 },
    { expiresIn: 'long' },
    undefined,
  ])
    assertRefused(await signing(path, body === undefined ? '' : body), 400)
})

test('contract §3 a signed URL returns Expires and the type, and accepts &download', async () => {
  const url = await sign()
  const reply = await open(url)
  const { exp } = claimsOf(tokenIn(url))
  assert.equal(reply.headers.get('expires'), new Date(exp * 1000).toUTCString())
  assert.equal(reply.headers.get('content-type'), 'text/plain')
  assert.equal((await open(`${url}&download=`)).headers.get('content-disposition'), 'attachment;')
  const named = (await open(`${url}&download=my%20file.txt`)).headers.get('content-disposition')
  assert.equal(named, "attachment; filename=my%20file.txt; filename*=UTF-8''my%20file.txt")
})

// Without a question mark: storage-js encodes the URL itself and leaves question marks unchanged.
test('contract §1 signing encodes reserved URL characters in keys', async () => {
  for (const key of ['a b/c&d=e.txt', "it's (1)+2.txt", 'a;b:c@d,e$.txt']) {
    await storage.store(bucket, key, key)
    const url = await sign(key)
    assert.equal((await open(`${url}&download=`)).text, key, url)
    assert.equal((await open(encodeURI(`${url}&download=`))).text, key, 'as storage-js asks')
    const [many] = bodyOf(await storage.post(`object/sign/${bucket}`, { expiresIn: 60, paths: [key] }))
    assert.equal((await open(many.signedURL)).text, key)
  }
})

test('contract §5 signing a missing or hidden file returns 404', async () => {
  assertRefused(await signing('missing'), 404, 'NoSuchKey')
  for (const as of ['anon', ada] as const)
    for (const key of [path, 'missing'])
      assertRefused(
        await storage.post(objectPath(bucket, key, 'object/sign'), { expiresIn: 60 }, { as }),
        404,
        'NoSuchKey',
      )
  assertRefused(await signing(path, undefined, unique('none')), 404)
})

test('case 17: a token opens no other path and no other bucket', async () => {
  const token = tokenIn(await sign())
  const twin = await storage.bucket()
  await storage.store(twin, path, 'of the twin')
  for (const [key, of] of [
    ['other.txt', bucket],
    [path, twin],
    ['folder/b.txt', bucket],
    ['folder', bucket],
    ['Folder/a.txt', bucket],
    ['folder/a.txt.', bucket],
    ['folder/a.tx', bucket],
  ] as const)
    assertRefused(await open(at(key, token, of)), 400, 'InvalidSignature')
  // The same characters, divided differently into bucket and path.
  await storage.bucket({ id: `${bucket}x` })
  assertRefused(await open(at(path.slice(1), token, `${bucket}x`)), 400)
  assertRefused(await open(`/object/sign/${bucket}/folder%2fa.txt/x?token=${token}`), 400)
})

test('case 17: a changed token of any length returns 400', async () => {
  const token = tokenIn(await sign())
  const [head, claims, signature] = token.split('.') as [string, string, string]
  const forged = (changes: object) =>
    Buffer.from(JSON.stringify({ ...claimsOf(token), ...changes })).toString('base64url')
  const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')
  const flipped = (signature.startsWith('A') ? 'B' : 'A') + signature.slice(1)
  for (const wrong of [
    '',
    'x',
    'a.b.c',
    '..',
    `${head}.${claims}`,
    `${head}.${claims}.`,
    `${head}.${claims}.${flipped}`,
    `${head}.${claims}.${signature.slice(1)}`,
    `${head}.${claims}.${signature}AA`,
    `${head}.${claims}.ü`,
    `${head}.${forged({ exp: nowSeconds() + 9999 })}.${signature}`,
    `${head}.${forged({ url: `${bucket}/other.txt` })}.${signature}`,
    `${none}.${claims}.`,
    `${none}.${claims}.${signature}`,
    `${token}.x`,
    'x'.repeat(5000),
    `${head}.${Buffer.from('null').toString('base64url')}.${signature}`,
  ]) {
    const reply = await open(at(path, wrong))
    assertRefused(reply, 400)
    assert.ok(!reply.text.includes('content'))
  }
  assertRefused(await open(`/object/sign/${bucket}/${path}`), 400)
  assertRefused(await open(at(path, 'a.b.c')), 400, 'InvalidJWT')
})

test('contract §5 an expired token returns 400', async () => {
  const url = await sign(path, { expiresIn: 1 })
  const refused = await until('it is over', async () => {
    const reply = await open(url)
    return reply.status !== 200 && reply
  })
  assertRefused(refused, 400, ['InvalidJWT', 'ExpiredToken'])
  assert.match(refused.body.message, /expire|exp/i)
  assert.ok(nowSeconds() - claimsOf(tokenIn(url)).exp <= 30)
})

test('clarifications: a user JWT is not accepted as a signed token', async () => {
  const { jwt_secret, service_role_key, anon_key } = storage.project
  const claims = { url: `${bucket}/${path}`, scope: 'download', iat: nowSeconds(), exp: nowSeconds() + 60 }
  for (const secret of [jwt_secret, service_role_key, anon_key, ''])
    for (const more of [{}, { role: 'service_role', sub: ada.sub }])
      assertRefused(await open(at(path, jwt({ ...claims, ...more }, secret))), 400)
  for (const token of [service_role_key, anon_key]) assertRefused(await open(at(path, token)), 400)
})

test('clarifications: a signed token is not accepted as a credential', async () => {
  const token = tokenIn(await sign())
  const upload = bodyOf(await storage.post(objectPath(bucket, 'new', 'object/upload/sign'), {})).token
  for (const each of [token, upload])
    for (const path of [objectPath(bucket, 'other.txt'), 'bucket'])
      for (const options of [
        { apikey: each },
        { token: each },
        { apikey: storage.project.anon_key, token: each },
        { apikey: storage.project.service_role_key, token: each },
      ])
        assertStatus(await it.call('GET', `${storageRoot(storage.project)}/${path}`, options), 401)
})

test('contract §5 a download token uploads nothing, an upload token downloads nothing', async () => {
  const download = tokenIn(await sign())
  const options = { raw: 'x', as: 'nobody' } as const
  const put = `${objectPath(bucket, path, 'object/upload/sign')}?token=${download}`
  assertRefused(await storage.ask('PUT', put, options), 400)
  const { token } = bodyOf(
    await storage.post(objectPath(bucket, path, 'object/upload/sign'), {}, { headers: upsert }),
  )
  assertRefused(await open(at(path, token)), 400)
  assert.equal((await storage.read(bucket, path)).toString(), 'content')
})

test('case 17: extra fields of the body do not become claims of the token', async () => {
  const smuggled = {
    role: 'service_role',
    sub: ada.sub,
    url: `${bucket}/other.txt`,
    scope: 'upload',
    exp: nowSeconds() + 99_999,
    iss: 'x',
    owner: ada.sub,
    upsert: true,
    payload: { role: 'service_role' },
  }
  for (const reply of [
    await signing(path, { expiresIn: 60, ...smuggled }),
    await storage.post(`object/sign/${bucket}`, { expiresIn: 60, paths: [path], ...smuggled }),
    await storage.post(objectPath(bucket, 'fresh', 'object/upload/sign'), smuggled),
  ]) {
    assert.ok(reply.status < 500, reply.text)
    if (reply.status !== 200) continue
    const token = reply.body.token ?? tokenIn(reply.body.signedURL ?? reply.body[0].signedURL)
    const { role, sub, iss, payload, owner, url, exp, iat } = claimsOf(token)
    assert.deepEqual([role, sub, iss, payload], [undefined, undefined, undefined, undefined])
    assert.ok(owner === undefined || owner === null)
    assert.notEqual(url, smuggled.url)
    assert.ok(exp - iat <= 7200)
  }
})

test('1 §1 a token of one project opens nothing in another', async () => {
  const twin = await storageProject(it)
  await twin.bucket({ id: bucket })
  await twin.store(bucket, path, 'of the other project')
  const token = tokenIn(
    bodyOf(await twin.post(objectPath(bucket, path, 'object/sign'), { expiresIn: 60 })).signedURL,
  )
  assertRefused(await open(at(path, token)), 400)
})

test('contract §1 many paths are signed in order, with an error for each that fails', async () => {
  const paths = ['other.txt', 'missing', path, '../x', 'other.txt']
  for (const body of [
    { expiresIn: 60, paths },
    { expires_in: 60, paths },
  ]) {
    const signed: any[] = bodyOf(await storage.post(`object/sign/${bucket}`, body))
    assert.deepEqual(
      signed.map(({ path }) => path),
      paths,
    )
    for (const [i, each] of signed.entries()) {
      assert.deepEqual(Object.keys(each).sort(), ['error', 'path', 'signedURL'])
      if (i === 1 || i === 3) {
        assert.ok(typeof each.error === 'string' && each.error !== '')
        assert.equal(each.signedURL, null)
      } else {
        assert.equal(each.error, null)
        assert.equal((await open(each.signedURL)).status, 200)
      }
    }
  }
  const hidden: any[] = bodyOf(
    await storage.post(`object/sign/${bucket}`, { expiresIn: 60, paths }, { as: ada }),
  )
  assert.ok(hidden.every(({ signedURL, error }) => signedURL === null && typeof error === 'string'))
})

test('contract §1 one request signs 1 to 1000 paths', async () => {
  const ask = (paths: unknown, more: object = { expiresIn: 60 }) =>
    storage.post(`object/sign/${bucket}`, { paths, ...more })
  const names = (count: number) => Array.from({ length: count }, (_, i) => `missing-${i}`)
  assert.equal(bodyOf(await ask(names(1000))).length, 1000)
  for (const paths of [[], names(1001), 'a', [1], undefined]) assertRefused(await ask(paths), 400)
  assertRefused(await ask([path], {}), 400)
  assertRefused(await ask([path], { expiresIn: 0 }), 400)
})

test('contract §5 a signed URL stops working when the file is deleted, and returns the new version when it is replaced', async () => {
  await storage.store(bucket, 'passing.txt', 'one')
  const url = await sign('passing.txt')
  await storage.store(bucket, 'passing.txt', 'two', { headers: upsert })
  assert.equal((await open(url)).text, 'two')
  bodyOf(await storage.delete(objectPath(bucket, 'passing.txt')))
  assertRefused(await open(url), 404, 'NoSuchKey')
})

test('contract §3 a signed URL supports conditional requests and HEAD', async () => {
  const url = (await sign()).slice(1)
  const etag = (await storage.get(url, { as: 'nobody' })).headers.get('etag') ?? ''
  const headers = { 'if-none-match': etag }
  assertStatus(await storage.get(url, { as: 'nobody', headers }), 304)
  const head = await storage.head(url, { as: 'nobody' })
  assertOneOf(head, [200])
  assert.equal(head.headers.get('content-length'), '7')
})
