import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { before, test } from 'node:test'
import { generateKeyPair, SignJWT } from 'jose'
import type { ConfiguredProvider } from './configuration.ts'
import { BadIdToken, hashedNonce, verifyIdToken } from './id-token.ts'
import type { Issuer } from './issuers.ts'
import { providers } from './providers.ts'

let keys: Awaited<ReturnType<typeof generateKeyPair>>
before(async () => {
  keys = await generateKeyPair('ES256')
})

const configured = (issuer: string): ConfiguredProvider => ({
  ...providers.google,
  name: 'google',
  provider: providers.google,
  clientIds: ['client'],
  clientSecret: '',
  issuer,
})

async function verdict(
  claims: Record<string, unknown>,
  { issuer = providers.google.issuer, nonce, accessToken }: Record<string, string | undefined> = {},
): Promise<string> {
  const token = await new SignJWT({ sub: 'somebody', aud: 'client', ...claims })
    .setProtectedHeader({ alg: 'ES256' })
    .setIssuedAt()
    .setExpirationTime('1m')
    .sign(keys.privateKey)
  const published: Issuer = {
    name: issuer,
    authorize_url: '',
    token_url: '',
    userinfo_url: '',
    keys: async () => keys.publicKey,
  }
  return verifyIdToken(token, configured(issuer), published, { nonce, accessToken }).then(
    () => 'good',
    error => {
      assert.ok(error instanceof BadIdToken, String(error))
      return error.message
    },
  )
}

const iss = providers.google.issuer
const elsewhere = 'https://id.example.com'

test('ID token: Google is valid under both of its issuer names, a custom issuer only under its own', async () => {
  assert.equal(await verdict({ iss }), 'good')
  assert.equal(await verdict({ iss: 'accounts.google.com' }), 'good')
  assert.equal(await verdict({ iss: elsewhere }, { issuer: elsewhere }), 'good')
  for (const other of ['accounts.google.com', iss])
    assert.match(await verdict({ iss: other }, { issuer: elsewhere }), /issuer/)
})

test('ID token: the nonce must match, or be absent on both sides', async () => {
  assert.equal(await verdict({ iss, nonce: 'n' }, { nonce: 'n' }), 'good')
  assert.match(await verdict({ iss, nonce: 'n' }), /nonce/)
  assert.match(await verdict({ iss }, { nonce: 'n' }), /nonce/)
  assert.match(await verdict({ iss, nonce: 'n' }, { nonce: hashedNonce('n') }), /nonce/)
})

test('ID token: at_hash, if present, must match the access token', async () => {
  const at_hash = createHash('sha256').update('access').digest().subarray(0, 16).toString('base64url')
  assert.equal(await verdict({ iss, at_hash }, { accessToken: 'access' }), 'good')
  assert.equal(await verdict({ iss }, { accessToken: 'access' }), 'good')
  assert.match(await verdict({ iss, at_hash }, { accessToken: 'another' }), /access token/)
})

test('OAuth providers: every built-in provider has HTTPS endpoints and scopes', () => {
  for (const [name, { authorize_url, token_url, userinfo_url, issuer, scopes, protocol }] of Object.entries(
    providers,
  )) {
    for (const url of [authorize_url, token_url, issuer]) assert.match(url, /^https:\/\/[^/]+/, name)
    assert.ok(protocol === 'openid' || userinfo_url !== '', name)
    assert.ok(scopes.length > 0, name)
  }
})
