import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  fitsLink,
  fromBase32,
  newTotpSecret,
  qrCodeSvg,
  stepSeconds,
  toBase32,
  totpCode,
  totpStep,
  totpUri,
} from './totp.ts'

/** The key of the examples in RFC 6238, appendix B. */
const key = Buffer.from('12345678901234567890')
const secret = toBase32(key)

test('TOTP: codes match RFC 6238 in their last six digits', () => {
  const examples: [seconds: number, code: string][] = [
    [59, '94287082'],
    [1_111_111_109, '07081804'],
    [1_111_111_111, '14050471'],
    [1_234_567_890, '89005924'],
    [2_000_000_000, '69279037'],
    [20_000_000_000, '65353130'],
  ]
  for (const [seconds, code] of examples)
    assert.equal(totpCode(secret, Math.floor(seconds / stepSeconds)), code.slice(-6), `at ${seconds}`)
})

test('TOTP: base32 matches RFC 4648 without padding', () => {
  const examples = {
    f: 'MY',
    fo: 'MZXQ',
    foo: 'MZXW6',
    foob: 'MZXW6YQ',
    fooba: 'MZXW6YTB',
    foobar: 'MZXW6YTBOI',
  }
  for (const [plain, encoded] of Object.entries(examples)) {
    assert.equal(toBase32(Buffer.from(plain)), encoded)
    assert.equal(fromBase32(encoded).toString(), plain)
    assert.equal(fromBase32(encoded.toLowerCase().padEnd(8, '=')).toString(), plain)
  }
  assert.throws(() => fromBase32('MZXW1'))
})

test('TOTP: each secret is random and has 160 bits', () => {
  const made = newTotpSecret()
  assert.match(made, /^[A-Z2-7]{32}$/)
  assert.equal(fromBase32(made).length, 20)
  assert.notEqual(newTotpSecret(), made)
})

test('TOTP: a code is valid for one step before and after its own', () => {
  const step = 41_152_263
  for (const off of [-1, 0, 1]) assert.equal(totpStep(secret, totpCode(secret, step + off), step), step + off)
  for (const off of [-2, 2]) assert.equal(totpStep(secret, totpCode(secret, step + off), step), undefined)
  assert.equal(totpStep(newTotpSecret(), 'abcdef', step), undefined)
})

test('TOTP: whitespace between the digits is ignored, other characters are invalid', () => {
  const step = 37_037_036
  const code = totpCode(secret, step)
  assert.equal(totpStep(secret, ` ${code.slice(0, 3)} ${code.slice(3)}\n`, step), step)
  const others = [
    `${code}0`,
    code.slice(1),
    `+${code.slice(1)}`,
    `-${code}`,
    `0x${code}`,
    `${code}.0`,
    '',
    '       ',
  ]
  for (const other of others) assert.equal(totpStep(secret, other, step), undefined, other)
  const arabic = Array.from(code, digit => String.fromCodePoint(0x660 + Number(digit))).join('')
  assert.equal(totpStep(secret, arabic, step), undefined)
})

test('TOTP: the URI encodes any issuer and account', () => {
  const uri = new URL(totpUri(secret, 'Bäcker & Söhne', 'ada+test@example.com'))
  assert.equal(`${uri.protocol}//${uri.host}`, 'otpauth://totp')
  assert.equal(decodeURIComponent(uri.pathname), '/Bäcker & Söhne:ada+test@example.com')
  assert.deepEqual(Object.fromEntries(uri.searchParams), {
    secret,
    issuer: 'Bäcker & Söhne',
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  })
  assert.ok(!uri.search.includes('+'))
})

test('TOTP: an issuer with a colon is only in the issuer parameter', () => {
  const uri = new URL(totpUri(secret, 'https://example.com', 'ada@example.com'))
  assert.equal(decodeURIComponent(uri.pathname), '/ada@example.com')
  assert.equal(uri.searchParams.get('issuer'), 'https://example.com')
})

test('TOTP: long names are cut between characters', () => {
  assert.ok(fitsLink('a'.repeat(192)))
  assert.ok(!fitsLink('a'.repeat(193)))
  const account = `${'𝒜'.repeat(120)}@example.com`
  const uri = totpUri(secret, '漢'.repeat(255), account)
  assert.ok(uri.length < 700, `${uri.length}`)
  const { pathname } = new URL(uri)
  assert.equal(decodeURIComponent(pathname), `/${'漢'.repeat(21)}:${'𝒜'.repeat(16)}`)
})

test('TOTP: the QR code is one SVG without characters that end a data URI', () => {
  const svg = qrCodeSvg(totpUri(secret, '漢'.repeat(255), '字'.repeat(255)))
  assert.match(svg, /^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/)
  assert.ok(svg.endsWith('</svg>'))
  assert.ok(!svg.includes('#'))
  assert.notEqual(qrCodeSvg('otpauth://totp/a'), qrCodeSvg('otpauth://totp/b'))
})
