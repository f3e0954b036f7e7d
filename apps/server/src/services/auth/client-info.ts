import type { RequestHead } from '#src/kernel/http/request.ts'

/** The client of a request, stored with the session it creates and counted by the rate limits. */
export interface ClientInfo {
  ip: string
  userAgent: string | undefined
}

export const clientInfo = ({ ip, headers }: RequestHead): ClientInfo => ({
  ip,
  userAgent: headers['user-agent']?.slice(0, 512),
})
