// An SMTP server as it is configured, by a project or by SMTP_*, and what is taken where nothing is said.
import { addressPattern, type Encryption, hostPattern } from '@plinth/contract/email.ts'

export interface SmtpServer {
  host: string
  port: number
  /** `starttls` goes no further with a server that does not offer it. */
  encryption: Encryption
  login: { user: string; password: string } | undefined
  from: { name: string; address: string }
}

const address = new RegExp(addressPattern, 'u')
const host = new RegExp(hostPattern, 'u')

/** One plain address: neither another header nor another recipient fits into it. */
export const isAddress = (text: string): boolean => address.test(text)
export const isHost = (text: string): boolean => host.test(text)

/**
 * Ports that projects may name: those of mail below 1024, and every port above, where providers and local servers
 * listen as they like (2525, 2587, 1025). Other services of note (SSH, DNS, HTTP) are not connected to.
 */
export const isMailPort = (port: number): boolean => mailPorts.has(port) || port >= 1024
const mailPorts = new Set([25, 465, 587])

const usualPorts: Readonly<Record<Encryption, number>> = { none: 1025, starttls: 587, tls: 465 }
const thisMachine = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/

/** In clear only to this very machine, unless somebody asks for it. */
export function usualWay(
  host: string,
  port: number | undefined,
  encryption: Encryption | undefined,
): { port: number; encryption: Encryption } {
  const chosen =
    encryption ?? (thisMachine.test(host) ? 'none' : port === usualPorts.tls ? 'tls' : 'starttls')
  return { port: port ?? usualPorts[chosen], encryption: chosen }
}

/** Most servers let a login send in its own name only, so that is the next best sender. */
export const usualSender = (host: string, username: string): string =>
  [username, `no-reply@${host}`].find(isAddress) ?? 'no-reply@localhost'
