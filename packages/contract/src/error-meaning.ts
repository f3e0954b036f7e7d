export interface ErrorMeaning {
  status: number
  meaning: string
}
