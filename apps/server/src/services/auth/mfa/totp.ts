// TOTP (RFC 6238): the secret, the otpauth URI and QR code that transfer it to the app, and the six-digit code that both
// sides compute from the time.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import qrcode from 'qrcode-generator'

export const stepSeconds = 30
const digits = 6
/** Accepted clock difference, in steps. */
const toleratedSteps = 1
const secretBytes = 20

/** In base32, the format that authenticator apps accept. */
export const newTotpSecret = (): string => toBase32(randomBytes(secretBytes))

/** A step is the number of half minutes since 1970. */
export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const value = digest.readUInt32BE(digest.at(-1)! & 0xf) & 0x7fffffff
  return String(value % 10 ** digits).padStart(digits, '0')
}

/** The step of a code within the tolerance. Ignores whitespace, because apps show the code in groups. */
export function totpStep(secret: string, typed: string, currentStep: number): number | undefined {
  const code = typed.replace(/\s/g, '')
  if (!/^\d{6}$/.test(code)) return
  let matching: number | undefined
  for (let step = currentStep - toleratedSteps; step <= currentStep + toleratedSteps; step++)
    if (timingSafeEqual(Buffer.from(totpCode(secret, step)), Buffer.from(code))) matching = step
  return matching
}

/** Keeps the URI short, because a large QR code is slow to draw and hard to scan. */
const maxNameBytes = 192

export const fitsLink = (name: string) => encodeURIComponent(name).length <= maxNameBytes

/** Cuts a name that is too long. Apps only display it. */
function shortened(name: string): string {
  const letters = Array.from(name)
  while (!fitsLink(letters.join(''))) letters.pop()
  return letters.join('')
}

export function totpUri(secret: string, issuer: string, account: string): string {
  // A colon separates issuer and account, so an issuer with a colon is only in the parameter.
  const names = issuer.includes(':') ? [account] : [issuer, account]
  const parameters = {
    secret,
    issuer: shortened(issuer),
    algorithm: 'SHA1',
    digits: String(digits),
    period: String(stepSeconds),
  }
  // URLSearchParams writes a space as `+`, which several apps display as a plus sign.
  const query = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return `otpauth://totp/${names.map(name => encodeURIComponent(shortened(name))).join(':')}?${query.join('&')}`
}

/** The SVG has no `#`, which would end the data URI that clients build from it. */
export function qrCodeSvg(text: string): string {
  const code = qrcode(0, 'L')
  code.addData(text, 'Byte')
  code.make()
  return code.createSvgTag({ cellSize: 4, margin: 16, scalable: true })
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Without padding, which apps do not expect. */
export function toBase32(bytes: Uint8Array): string {
  const bits = Array.from(bytes, byte => byte.toString(2).padStart(8, '0')).join('')
  return (bits.match(/.{1,5}/g) ?? [])
    .map(group => alphabet[Number.parseInt(group.padEnd(5, '0'), 2)])
    .join('')
}

export function fromBase32(text: string): Buffer {
  const bits = Array.from(text.toUpperCase().replace(/=+$/, ''), letter => {
    const value = alphabet.indexOf(letter)
    if (value < 0) throw new Error('A secret of a second factor is not base32')
    return value.toString(2).padStart(5, '0')
  }).join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map(byte => Number.parseInt(byte, 2)))
}
