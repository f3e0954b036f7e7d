import { Refusal } from '#src/kernel/errors.ts'

export const invalidCredentials = () => new Refusal('invalid_credentials', 'Invalid login credentials')

/** Sign-in and refresh answer 400 for a banned user. All other routes answer 403. */
export const bannedAtSignIn = () => new Refusal({ code: 'user_banned', status: 400 }, 'User is banned')
