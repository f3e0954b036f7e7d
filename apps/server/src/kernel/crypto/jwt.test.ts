import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { es256PrivateKey, es256PublicKey, newEs256Key } from './es256.ts'
import { es256KeyId, looksLikeJwt, signJwt, signJwtEs256, verifyJwt } from './jwt.ts'

const secret = 'a secret of the project'
const now = 1_800_000_000_000
const seconds = now / 1000
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const signed = (header: object, payload: unknown, key = secret) => {
  const input = `${part(header)}.${part(payload)}`
  return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`
}

test('verifying a token returns its claims and its payload as the issuer wrote it', () => {
  const verified = verifyJwt(signJwt({ role: 'anon', exp: seconds + 60 }, secret), secret, now)
  assert.deepEqual(verified?.claims, { role: 'anon', exp: seconds + 60 })
  assert.equal(verified?.json, `{"role":"anon","exp":${seconds + 60}}`)
})

test('the clock of the issuer may be 30 seconds ahead', () => {
  const claims = { iat: seconds + 30, nbf: seconds + 30, exp: seconds + 60, aud: ['app', 'web'] }
  assert.ok(verifyJwt(signJwt(claims, secret), secret, now))
})

const invalid: Record<string, string> = {
  'another secret': signJwt({ role: 'anon' }, 'another secret'),
  'alg none, unsigned': `${part({ alg: 'none' })}.${part({ role: 'service_role' })}.`,
  'alg none, signed': signed({ alg: 'none' }, { role: 'service_role' }),
  'alg RS256 signed as HS256': signed({ alg: 'RS256' }, { role: 'service_role' }),
  expired: signJwt({ exp: seconds - 1 }, secret),
  'expiring now': signJwt({ exp: seconds }, secret),
  'exp that is text': signJwt({ exp: 'tomorrow' }, secret),
  'not valid yet': signJwt({ nbf: seconds + 31 }, secret),
  'nbf that is text': signJwt({ nbf: 'today' }, secret),
  'issued in the future': signJwt({ iat: seconds + 31 }, secret),
  'iat that is text': signJwt({ iat: 'today' }, secret),
  'aud that is a number': signJwt({ aud: 5 }, secret),
  'aud with a number': signJwt({ aud: ['app', 5] }, secret),
  'a payload that is a list': signed({ alg: 'HS256' }, [1]),
  'a payload that is null': signed({ alg: 'HS256' }, null),
  'four parts': `${signJwt({}, secret)}.x`,
  'two parts': signJwt({}, secret).split('.').slice(0, 2).join('.'),
  nothing: '',
  'a megabyte': signJwt({ pad: 'x'.repeat(1_000_000) }, secret),
  'a signature cut short': signJwt({}, secret).slice(0, -4),
}
for (const [what, token] of Object.entries(invalid))
  test(`rejected: ${what}`, () => assert.equal(verifyJwt(token, secret, now), undefined))

test('a changed payload no longer matches its signature', () => {
  const [head, , signature] = signJwt({ role: 'anon' }, secret).split('.')
  assert.equal(verifyJwt(`${head}.${part({ role: 'service_role' })}.${signature}`, secret, now), undefined)
})

test('project keys do not look like tokens', () => {
  assert.equal(looksLikeJwt('platform_anon_app_ey.a.b'), false)
  assert.equal(looksLikeJwt(signJwt({}, secret)), true)
})

test('an ES256 token is verified with the key that its kid names, and HS256 with the secret', () => {
  const { point, secret: d } = newEs256Key()
  const keys = {
    secret,
    publicKey: (kid: string) => (kid === 'own' ? es256PublicKey(point) : undefined),
  }
  const signedBy = (kid: string, key = es256PrivateKey(point, d)) =>
    signJwtEs256({ role: 'anon' }, { kid, privateKey: key })
  const other = newEs256Key()
  assert.deepEqual(verifyJwt(signedBy('own'), keys, now)?.claims, { role: 'anon' })
  assert.deepEqual(verifyJwt(signJwt({ role: 'anon' }, secret), keys, now)?.claims, { role: 'anon' })
  assert.equal(verifyJwt(signedBy('other'), keys, now), undefined)
  assert.equal(verifyJwt(signedBy('own'), secret, now), undefined)
  assert.equal(verifyJwt(signedBy('own', es256PrivateKey(other.point, other.secret)), keys, now), undefined)
  assert.equal(es256KeyId(signedBy('own')), 'own')
  assert.equal(es256KeyId(signJwt({}, secret)), undefined)
})
