// The settings of an SMTP server, from a project or from SMTP_*, and their defaults.
import { addressPattern, type Encryption, hostPattern } from '@plinth/contract/email.ts'

export interface SmtpServer {
  host: string
  port: number
  /** With `starttls`, sending fails if the server does not offer it. */
  encryption: Encryption
  login: { user: string; password: string } | undefined
  from: { name: string; address: string }
}

const address = new RegExp(addressPattern, 'u')
const host = new RegExp(hostPattern, 'u')

/** One plain address, so that no other header or recipient can be injected. */
export const isAddress = (text: string): boolean => address.test(text)
export const isHost = (text: string): boolean => host.test(text)

/**
 * Ports that projects may use: the mail ports below 1024, and every port above, where providers and local servers listen
 * (2525, 2587, 1025). So well-known ports of other services (SSH, DNS, HTTP) are not reachable.
 */
export const isMailPort = (port: number): boolean => mailPorts.has(port) || port >= 1024
const mailPorts = new Set([25, 465, 587])

const defaultPorts: Readonly<Record<Encryption, number>> = { none: 1025, starttls: 587, tls: 465 }
const thisMachine = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/

/** By default, only connections to this machine are not encrypted. */
export function smtpDefaults(
  host: string,
  port: number | undefined,
  encryption: Encryption | undefined,
): { port: number; encryption: Encryption } {
  const chosen =
    encryption ?? (thisMachine.test(host) ? 'none' : port === defaultPorts.tls ? 'tls' : 'starttls')
  return { port: port ?? defaultPorts[chosen], encryption: chosen }
}

/** The user name if it is an address, because most servers accept only that as the sender. */
export const defaultSender = (host: string, username: string): string =>
  [username, `no-reply@${host}`].find(isAddress) ?? 'no-reply@localhost'
