// Forged tokens against a project that signs with ES256.
import assert from 'node:assert/strict'
import { createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from './harness.ts'
import { claimsOf, headerOf, type SigningProject, signingProject } from './signing-keys-project.ts'

let platform: TestPlatform
let project: SigningProject
let token: string
before(async () => {
  platform = await startPlatform()
  project = await signingProject(platform)
  token = await project.newToken()
})
after(() => platform?.stop())

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const claims = () => part({ ...claimsOf(token), role: 'service_role' })
const withHmac = (header: object, key: string | Buffer) => {
  const input = `${part(header)}.${claims()}`
  return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`
}

test('signing keys: a token with a public key as HMAC secret is rejected', async () => {
  const [jwk] = await project.jwks()
  const key = createPublicKey({ key: jwk as never, format: 'jwk' })
  const texts = [
    JSON.stringify(jwk),
    String(jwk!['x']),
    Buffer.from(String(jwk!['x']), 'base64url'),
    key.export({ format: 'pem', type: 'spki' }),
    key.export({ format: 'der', type: 'spki' }),
    jwk!.kid,
  ]
  for (const alg of ['HS256', 'ES256'])
    for (const text of texts)
      assert.equal(await project.statusWith(withHmac({ alg, kid: jwk!.kid, typ: 'JWT' }, text)), 401)
})

test('signing keys: alg none and other algorithms are rejected', async () => {
  const { kid } = headerOf(token)
  const [, payload, signature] = token.split('.')
  for (const alg of ['none', 'None', '', 'ES384', 'ES256K', 'RS256', 'es256', null, ['ES256']])
    for (const end of ['', 'x', signature])
      assert.equal(await project.statusWith(`${part({ alg, kid })}.${payload}.${end}`), 401, `${alg}`)
})

test('signing keys: a token without a kid, or with one that is no text, is rejected', async () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  for (const kid of [undefined, null, 1, {}, [headerOf(token).kid], '__proto__', 'constructor', '']) {
    const input = `${part({ alg: 'ES256', kid })}.${claims()}`
    const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' })
    assert.equal(await project.statusWith(`${input}.${signature.toString('base64url')}`), 401, String(kid))
  }
})

test('signing keys: another key under the kid of the project is rejected', async () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const input = `${part({ alg: 'ES256', kid: headerOf(token).kid, typ: 'JWT' })}.${claims()}`
  const forge = (dsaEncoding: 'der' | 'ieee-p1363') =>
    sign('sha256', Buffer.from(input), {
      key: createPrivateKey(privateKey.export({ format: 'pem', type: 'pkcs8' })),
      dsaEncoding,
    })
  for (const signature of [
    forge('der'),
    forge('ieee-p1363'),
    Buffer.alloc(64),
    Buffer.alloc(0),
    Buffer.alloc(65, 1),
  ])
    assert.equal(await project.statusWith(`${input}.${signature.toString('base64url')}`), 401)
})

test('signing keys: a token of another project is rejected', async () => {
  const other = await signingProject(platform)
  assert.equal(await project.statusWith(await other.newToken()), 401)
  assert.equal(await other.statusWith(token), 401)
})

test('signing keys: a changed payload is rejected, and the original still works', async () => {
  const [head, , signature] = token.split('.')
  assert.equal(await project.statusWith(`${head}.${claims()}.${signature}`), 401)
  assert.equal(await project.statusWith(token), 200)
})
